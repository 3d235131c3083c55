// Base64 text of bytes (RFC 4648).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace moescope {

std::string base64(std::span<const std::uint8_t> bytes);
// Uses - and _ in place of + and /, without padding, so that the text can be part of a link without escaping.
std::string base64url(std::string_view bytes);
// Decodes base64url text, with or without padding. nullopt if the text is not valid.
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace moescope
