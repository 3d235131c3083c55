// Unicode classes of characters as the `tokenizers` package defines them, determined by ICU. Texts are UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moescope {

bool is_white_space(char32_t c);                 // White_Space
bool is_word_character(char32_t c);              // \w: alphabetic, marks, decimal digits, connectors, joiners
bool is_numeric(char32_t c);                     // categories Nd, Nl, No
bool is_punctuation(char32_t c);                 // categories P*, and ASCII except letters, digits, blanks and controls
bool is_combining_mark(char32_t c);              // categories M*
void append_lower(std::string& to, char32_t c);  // regardless of the neighbouring characters

// Returns the character at `at` and moves `at` past it; U+FFFD for bytes that are not UTF-8.
char32_t next_character(std::string_view text, std::size_t& at);
// Returns the character that ends at `at` (> 0) and moves `at` to its beginning; U+FFFD for bytes that are not UTF-8.
char32_t previous_character(std::string_view text, std::size_t& at);
void append_character(std::string& to, char32_t c);

// Returns the text with one U+FFFD in place of each part that is not UTF-8. Such a part extends as far as its bytes
// could begin a character (the maximal subpart of the Unicode standard, section 3.9).
std::string valid_utf8(std::string_view text);

// The alphabet of byte-level tokenizers (GPT-2): a printable character for every byte, so that a vocabulary of bytes
// can be written as text. Bytes that are printable in Latin-1 are written as themselves, the others in order as U+0100
// and following: a space is U+0120.
void append_as_characters(std::string& to, std::string_view bytes);
// Returns false and leaves `to` unchanged if a character of `text` is not in the alphabet.
bool append_as_bytes(std::string& to, std::string_view text);

}  // namespace moescope
