// The alphabet of byte-level tokenizers (GPT-2): a printable character for every byte, so that a vocabulary of bytes
// can be written as text. Bytes that are printable in Latin-1 are written as themselves, the others in order as U+0100
// and following: a space is U+0120.
#pragma once

#include <string>
#include <string_view>

namespace moescope {

void append_as_characters(std::string& to, std::string_view bytes);
// Returns false and leaves `to` unchanged if a character of `text` is not in the alphabet.
bool append_as_bytes(std::string& to, std::string_view text);

}  // namespace moescope
