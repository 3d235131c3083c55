// The alphabet of byte-level tokenizers (GPT-2): a printable character for every byte, so that a vocabulary of bytes
// can be written as text. Bytes that are printable in Latin-1 stand for themselves; the others, in order, for U+0100
// and on: a space is U+0120.
#pragma once

#include <string>
#include <string_view>

namespace moescope {

void append_as_characters(std::string& to, std::string_view bytes);
// False: a character of `text` is none of the alphabet; `to` stays as it is.
bool append_as_bytes(std::string& to, std::string_view text);

}  // namespace moescope
