// Numbers and lists as text for sentences, and pieces cut out of a text.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace moescope {

std::string decimal(double value, int significant = 3);  // "8.9", "0.0012", "1.2e-06"; "NaN", "infinite"
// Decimal places of a figure on the screen. With 3 digits: "12.3", "1.26", "0.047", and "0.0037" with two digits.
int decimal_places(double value, int digits);
std::string shortest(double value);       // the fewest digits that give it back: "4", "0.001", "1e-09"
std::string percent(double share);        // "12 %", "0.83 %"
std::string grouped(std::int64_t value);  // "12,345"
// Names at most `max_named` numbers: "3", "3 and 7", "3, 7, 9 and 12 more"; more numbers as ranges, if there are at
// most `max_named`: "100 to 139", "1 to 6, 9 and 12 to 17".
std::string listed(std::span<const int> numbers, std::size_t max_named = 6);
// Joins the items, or the texts that `text_of` returns for them: "a, b, c".
template <class Items, class TextOf = std::identity>
std::string joined(const Items& items, const char* between, TextOf text_of = {}) {
  std::string text;
  bool first = true;
  for (const auto& item : items) {
    if (!std::exchange(first, false)) text += between;
    text += std::invoke(text_of, item);
  }
  return text;
}
// "step 40" or "steps 40 to 90".
std::string steps_in_words(std::int64_t first, std::int64_t last);
// "1 expert", "12 experts".
std::string counted(std::int64_t n, const char* singular, const char* plural);
// Levenshtein distance: insertions, deletions and replacements that turn one word into the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

// Returns the text without surrounding blanks.
inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r") {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// Reads a text that is a number as a whole. Returns false if it is not; `value` then has no meaning.
template <class Number>
bool read_number(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}
#if !defined(__cpp_lib_to_chars) || defined(MOESCOPE_PORTABLE)  // LLVM's library reads whole numbers only
bool read_number(std::string_view text, double& value);
bool read_number(std::string_view text, float& value);
#endif

// Returns the text before the next `end` and removes it and `end` from `text`.
inline std::string_view take_until(std::string_view& text, char end) {
  const std::size_t at = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

}  // namespace moescope
