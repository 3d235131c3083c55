// Bytes as printable ASCII: "\n", "\t", "\r", "\\" and "\xHH" for all that is not printable. What a person types for
// telemetry.probe, and how texts stand in JSON lines.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace moescope {

std::string escape_bytes(std::string_view bytes);
// Inverse; other characters (UTF-8, too) stand for their own bytes. Nothing: a backslash that starts none of these.
std::optional<std::string> unescape_bytes(std::string_view text);

// Bytes of the UTF-8 character that begins at text[i], i < size; 0: none does.
std::size_t utf8_bytes(std::string_view text, std::size_t i);

// Text of unknown origin (names of runs, tensors and files, titles, notes, what another program wrote) as a terminal
// may have it: printable UTF-8 stays; control characters, bytes that are no UTF-8, and what turns the direction of text
// round stand as "\n", "\x1b" and "\u202e". Whatever the command line prints of such text goes through here.
std::string printable(std::string_view text);
std::string printable_lines(std::string_view text);  // the same of a text of several lines: its line ends stay

}  // namespace moescope
