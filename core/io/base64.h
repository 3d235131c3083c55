// Bytes as text (RFC 4648).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace moescope {

std::string base64(std::span<const std::uint8_t> bytes);
// With - and _ for + and /, without padding: a part of a link that nobody escapes.
std::string base64url(std::string_view bytes);
// The inverse of the latter; padding may be there. nullopt: it is no such text.
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace moescope
