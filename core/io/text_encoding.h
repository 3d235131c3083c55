// Recognises files that should be UTF-8 text and are not, and says what they are instead.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moescope {

// Judged by the first bytes of a file: "is gzip-compressed: gunzip it first", "is UTF-16 text: ..."; empty: so far it
// may be UTF-8.
std::string encoding_problem(std::string_view beginning);

// The same for a whole text, where other encodings are found as well: "line 3: byte 0xe4 is not UTF-8 (Latin-1?): ...".
std::string text_problem(std::string_view text);

// The first byte that is not UTF-8; npos: all are.
std::size_t not_utf8_at(std::string_view text);

// The text without the byte order mark that some programs write before UTF-8.
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace moescope
