// Recognises files that should be UTF-8 text but are not, and says which format they have.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace moescope {

// Judges the first bytes of a file: "is gzip-compressed: gunzip it first", "is UTF-16 text: ...". Empty if they may be
// UTF-8.
std::string encoding_problem(std::string_view beginning);

// Recognises UTF-16 text, with or without a mark, by ASCII in two bytes each: true if the first of them is zero.
std::optional<bool> is_big_endian_utf16(std::string_view text);
// Appends UTF-16 bytes to a UTF-8 text. Leaves the bytes of a character that is not complete.
void take_utf16(std::string& bytes, bool is_big_endian, std::string& text);

// Judges a whole text, so that other encodings are found as well: "line 3: byte 0xe4 is not UTF-8 (Latin-1?): ...".
// Empty if the text is UTF-8.
std::string text_problem(std::string_view text);

// Position of the first byte that is not UTF-8; npos if there is none.
std::size_t not_utf8_at(std::string_view text);

// Returns the text without the byte order mark that some programs write before UTF-8.
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace moescope
