// Bytes as printable ASCII: "\n", "\t", "\r", "\\" and "\xHH" for all that is not printable. Used for telemetry.probe
// and for texts in JSON lines.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace moescope {

std::string escape_bytes(std::string_view bytes);
// The inverse; all other characters (UTF-8, too) stand for their own bytes. nullopt: a backslash that starts none of
// these.
std::optional<std::string> unescape_bytes(std::string_view text);

// Bytes of the UTF-8 character that begins at text[i], i < size; 0: none does.
std::size_t utf8_bytes(std::string_view text, std::size_t i);

// Text of unknown origin (names of runs, tensors and files, titles, notes, what another program wrote) made safe for a
// terminal: printable UTF-8 stays; control characters, bytes that are not UTF-8 and marks that reverse the direction of
// text become "\n", "\x1b" and "\u202e". Everything of this kind that the command line prints goes through here.
std::string printable(std::string_view text);
std::string printable_lines(std::string_view text);  // the same of a text of several lines: its line ends stay

}  // namespace moescope
