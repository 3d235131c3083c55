#include "core/logs/lines/printed_number.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "core/files/text/words.h"

namespace moescope {

namespace {

constexpr std::string_view kBlanks = " \t\r\n", kAllDigits = "0123456789";
constexpr std::size_t kMaxDigits = 64, kDigitsOfGroup = 3;
// Units, and the exponents of ten by which their numbers are multiplied.
using Unit = std::pair<std::string_view, int>;
constexpr Unit kUnits[] = {{"%", -2}, {"x", 0},  {"k", 3},   {"K", 3},   {"M", 6},    {"G", 9},     {"B", 9},
                           {"T", 12}, {"GB", 0}, {"GiB", 0}, {"MB", 0},  {"MiB", 0},  {"us", 0},    {"ms", 0},
                           {"s", 0},  {"h", 0},  {"sec", 0}, {"min", 0}, {"it/s", 0}, {"tok/s", 0}, {"samples/s", 0}};

bool has_digit_at(std::string_view text, std::size_t at) {
  return at < text.size() && kAllDigits.find(text[at]) != std::string_view::npos;
}

std::string_view without_sign(std::string_view text) {
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return text;
}

// True for digits in groups of three behind commas, such as "1,234,567".
bool is_grouped_whole(std::string_view digits) {
  const std::size_t first = digits.find(',');
  if (first == 0 || first > kDigitsOfGroup || digits.front() == '0') return false;
  digits.remove_prefix(first);
  while (digits.size() > kDigitsOfGroup && digits.front() == ',' &&
         digits.find_first_not_of(kAllDigits, 1) > kDigitsOfGroup)
    digits.remove_prefix(kDigitsOfGroup + 1);
  return digits.empty();
}

// Removes the commas between groups of digits. Returns nullopt if the text has other commas, or an exponent behind
// groups: "1,234e-05" has a decimal comma.
std::optional<std::string> without_groups(std::string_view text) {
  if (text.find(',') == std::string_view::npos) return std::string(text);
  const std::string_view plain = without_sign(text);
  const std::size_t end = std::min(plain.find_first_not_of("0123456789,"), plain.size());
  const std::string_view suffix = plain.substr(end);
  if (!is_grouped_whole(plain.substr(0, end)) || suffix.find_first_of(",eE") != std::string_view::npos)
    return std::nullopt;
  std::string out(text);
  std::erase(out, ',');
  return out;
}

// Multiplies a number by a power of ten, so that "2.01k" and "1.2e-02%" are rounded once. Other texts stay no number.
std::string times_power_of_10(const std::string& number, int exponent) {
  const std::size_t end = std::min(number.find_first_of("eE"), number.size());
  std::int16_t own_exponent = 0;
  const std::string_view digits = std::string_view(number).substr(std::min(end + 1, number.size()));
  const bool has_plus = digits.starts_with('+') && !digits.starts_with("+-");
  if (end < number.size() && !read_number(digits.substr(has_plus ? 1 : 0), own_exponent)) return number;
  return number.substr(0, end) + 'e' + std::to_string(own_exponent + exponent);
}

}  // namespace

bool is_unit(std::string_view text) {
  return std::ranges::find(kUnits, text, &Unit::first) != std::end(kUnits);
}

std::optional<double> printed_number(std::string_view text) {
  text = trimmed(text, kBlanks);
  if (text.size() > kMaxDigits) return std::nullopt;
  double value = 0;
  if (read_number(text, value)) return value;                        // most numbers have neither unit nor groups
  const std::size_t digits_end = text.find_last_of(kAllDigits) + 1;  // 0: "nan"
  const auto unit = std::ranges::find(kUnits, trimmed(text.substr(digits_end), " "), &Unit::first);
  const bool has_unit = digits_end > 0 && unit != std::end(kUnits);
  if (has_unit) text = text.substr(0, digits_end);
  std::string grouped(text);  // "1'234" and "1_234" as "1,234"
  if (text.find(',') == text.npos)
    std::ranges::replace_if(
        grouped, [](char c) { return c == '\'' || c == '_'; }, ',');
  std::optional<std::string> plain = without_groups(grouped);
  if (!plain) return std::nullopt;
  if (has_unit && unit->second != 0) plain = times_power_of_10(*plain, unit->second);
  std::string_view digits = *plain;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  return read_number(digits, value) ? std::optional(value) : std::nullopt;
}

std::size_t number_length(std::string_view text) {
  std::string_view word = text.substr(0, kMaxDigits);
  word = word.substr(0, word.find_first_of(" \t|;()[]{}\r"));
  if (word.size() == kMaxDigits) return 0;
  while (word.ends_with(',')) word.remove_suffix(1);
  if (word.ends_with('.') && !printed_number(word)) word.remove_suffix(1);  // the end of a sentence
  bool are_several = word.find('/') != word.npos;                           // "2/64" is a text of two numbers
  for (std::string_view unread = word; are_several && !unread.empty();)
    are_several = is_like_number(take_until(unread, '/'));
  return printed_number(word) || is_like_number(word) || are_several ? word.size() : 0;
}

bool may_have_decimal_comma(std::string_view text) {
  return std::ranges::count(text, ',') == 1 && text.find('.') == std::string_view::npos;
}

void write_decimal_point(std::string& text) {
  const std::size_t comma = text.find(','), end = std::min(text.find_last_of(kAllDigits) + 1, text.size());
  if (std::ranges::count(text, ',') > 1 || !is_like_number(text.substr(0, end))) return;
  std::string groups = text.substr(0, comma);
  std::ranges::replace(groups, '.', ',');
  if (const auto plain = without_groups(groups))
    text = *plain + (comma == text.npos ? "" : '.' + text.substr(comma + 1));
}

bool is_like_number(std::string_view text) {
  const std::string_view plain = without_sign(trimmed(text, kBlanks));
  const bool begins = has_digit_at(plain, 0) || (plain.starts_with('.') && has_digit_at(plain, 1));
  const auto is_of_number = [](char c) {
    return std::string_view("0123456789.,'_+-eE").find(c) != std::string_view::npos || (c & '\x80') != 0;
  };
  return begins && std::ranges::all_of(plain, is_of_number);
}

}  // namespace moescope
