// What a file is that should be UTF-8 text and is not, said as its owner would say it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moescope {

// By the first bytes of a file, or all: "is gzip-compressed: gunzip it first", "is UTF-16 text: ..."; empty: nothing
// speaks against UTF-8 so far.
std::string encoding_problem(std::string_view beginning);

// The same of a whole text, which tells other encodings as well: "line 3: byte 0xe4 is no UTF-8 (Latin-1?): ...".
std::string text_problem(std::string_view text);

// Where a text stops being UTF-8; npos: nowhere.
std::size_t not_utf8_at(std::string_view text);

// The mark that some programs put before UTF-8 is no part of the text.
std::string_view without_byte_order_mark(std::string_view text);

}  // namespace moescope
