// Recognises files that should be UTF-8 text but are not, and says which format they have.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moescope {

// Judges the first bytes of a file: "is gzip-compressed: gunzip it first", "is UTF-16 text: ...". Empty if they may be
// UTF-8.
std::string encoding_problem(std::string_view beginning);

// Judges a whole text, so that other encodings are found as well: "line 3: byte 0xe4 is not UTF-8 (Latin-1?): ...".
// Empty if the text is UTF-8.
std::string text_problem(std::string_view text);

// Position of the first byte that is not UTF-8; npos if there is none.
std::size_t not_utf8_at(std::string_view text);

// Returns the text without the byte order mark that some programs write before UTF-8.
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace moescope
