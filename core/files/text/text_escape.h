// Writes bytes as printable ASCII: "\n", "\t", "\r", "\\", and "\xHH" for every other byte that is not printable. Used
// for telemetry.probe and for texts in JSON lines. Also Base64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace moescope {

std::string escape_bytes(std::string_view bytes);
// Reverses escape_bytes. All other characters, including UTF-8, stand for their own bytes. nullopt if a backslash does
// not begin one of these escapes.
std::optional<std::string> unescape_bytes(std::string_view text);

// Number of bytes of the UTF-8 character that begins at text[i], i < size; 0 if no valid character begins there.
std::size_t utf8_bytes(std::string_view text, std::size_t i);

// Makes text of unknown origin (names of runs, tensors and files, titles, notes, output of another program) safe for a
// terminal: printable UTF-8 stays; control characters, bytes that are not UTF-8 and marks that reverse the direction of
// text become "\n", "\x1b" and "\u202e". The command line prints every such text through this function.
std::string printable(std::string_view text);
std::string printable_lines(std::string_view text);  // as printable(), but keeps line ends

// Base64 text of bytes (RFC 4648).
std::string base64(std::span<const std::uint8_t> bytes);
// Uses - and _ in place of + and /, without padding, so that the text can be part of a link without escaping.
std::string base64url(std::string_view bytes);
// Decodes base64url text, with or without padding. nullopt if the text is not valid.
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace moescope
