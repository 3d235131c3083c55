// Unicode classes of characters as the `tokenizers` package takes them, by ICU; texts are UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moescope {

bool is_white_space(char32_t c);     // White_Space
bool is_word_character(char32_t c);  // what \w is: alphabetic, marks, decimal digits, connectors, joiners
bool is_numeric(char32_t c);         // categories Nd, Nl, No
bool is_punctuation(char32_t c);     // categories P*, and all of ASCII that is no letter, digit, blank or control
bool is_combining_mark(char32_t c);  // categories M*
void append_lower(std::string& to, char32_t c);  // of the character alone, whatever stands beside it

// The character at `at`, which moves behind it; what is not UTF-8 is U+FFFD.
char32_t next_character(std::string_view text, std::size_t& at);
// The same backwards: the character that ends at `at`, which moves before it. at > 0.
char32_t previous_character(std::string_view text, std::size_t& at);
void append_character(std::string& to, char32_t c);

// The text with U+FFFD for every part that is not UTF-8 (as long as a character could have gone on).
std::string valid_utf8(std::string_view text);

}  // namespace moescope
