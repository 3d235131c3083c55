#include "core/logs/lines/printed_number.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <utility>

#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/files/unreadable.h"
#include "core/logs/tag_map.h"

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

// Writes commas for no-break spaces, narrow ones and thin spaces: "5\u202f120" has groups of digits.
std::string with_commas(std::string_view text) {
  std::string out(text);
  for (const std::string_view blank : {"\u202f", "\u00a0", "\u2009"})
    for (std::size_t at = 0; (at = out.find(blank, at)) != out.npos;) out.replace(at, blank.size(), ",");
  return out;
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
  std::string grouped = with_commas(text);  // "1'234" and "1_234" as "1,234"
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

void drop_groups(std::string& text) {
  const bool may_be_list = std::ranges::count(text, ',') > 1;  // whose name decides
  if (!may_be_list && is_like_number(text)) text = without_groups(text).value_or(text);
}

void write_decimal_point(std::string& text) {
  const std::size_t comma = text.find(','), end = std::min(text.find_last_of(kAllDigits) + 1, text.size());
  std::string groups = with_commas(text.substr(0, comma));
  if (std::ranges::count(groups, ' ') == 1) std::ranges::replace(groups, ' ', ',');  // two may be those of a list
  if (std::ranges::count(text, ',') > 1 || !is_like_number(groups.substr(0, end))) return;
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

namespace {

constexpr std::size_t kShownCell = 40;  // characters

std::string quoted(std::string_view cell) {
  return '"' + printable(std::string(cell.substr(0, kShownCell))) + (cell.size() > kShownCell ? "...\"" : "\"");
}

std::optional<double> plain_number(std::string_view cell) {
  return cell.find_first_of(",'_") == cell.npos ? printed_number(cell) : std::nullopt;
}

bool is_grouped(std::string_view cell) {
  return !cell.empty() && cell.find_first_of(",. '_") != std::string_view::npos &&
         cell.find_first_not_of("+-0123456789,. '_") == std::string_view::npos;
}

// Adds the numbers of a list without brackets, "12 14 9", "12;14;9" or "12|14|9". Returns false if the cell is none.
bool read_bare_list(std::string_view cell, NamedValue& value) {
  const std::size_t sign = cell.find_first_of(";|");
  const char between = sign == cell.npos ? ' ' : cell[sign];
  while (!cell.empty()) {
    const std::string_view token = trimmed(take_until(cell, between));
    if (token.empty() && between == ' ') continue;  // columns
    const std::optional<double> number = plain_number(token);
    if (!number) return false;
    value.numbers.push_back(*number);
  }
  return value.numbers.size() > 2;
}

// Adds the numbers of the cell if it is a list. Returns false if it is none.
bool read_list(std::string_view cell, NamedValue& value) {
  const std::size_t begin = cell.find('['), end = cell.rfind(']');
  const bool is_printed = cell.starts_with("tensor(") || cell.starts_with("array(");
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return false;
  if (!is_printed && (begin != 0 || end + 1 != cell.size())) return false;
  int depth = 0;
  std::size_t first_of_row = 0;
  for (std::string_view unread = cell.substr(begin, end + 1 - begin); !unread.empty();) {
    const char c = unread.front();
    std::size_t length = 1;
    if (c == '[') {
      if (++depth > 2 || (depth == 2 && value.rows.empty() && !value.numbers.empty())) return false;
      first_of_row = value.numbers.size();
    } else if (c == ']') {
      if (depth-- == 2) value.rows.push_back(value.numbers.size() - first_of_row);
      if (depth == 0 && unread.size() > 1) return false;
    } else if (std::string_view(", \t\r\n").find(c) == std::string_view::npos) {
      length = std::min(unread.find_first_of("[], \t\r\n"), unread.size());
      const std::optional<double> number = plain_number(unread.substr(0, length));
      if (!number || (depth == 1 && !value.rows.empty())) return false;
      value.numbers.push_back(*number);
    }
    unread.remove_prefix(length);
  }
  return depth == 0;
}

}  // namespace

std::int64_t whole_number(std::string_view cell, std::int64_t max, const char* what) {
  const auto refuse = [&](const std::string& reason) {
    throw Unreadable(std::string(what) + ": " + quoted(cell) + reason);
  };
  const auto range = [max] { return fmt::format(", expected a whole number from 0 to {}", max); };
  std::int64_t whole = 0;
  if (!read_number(cell, whole)) {
    const std::optional<double> value = plain_number(cell);
    if (!value && is_grouped(cell)) refuse(": grouped digits are ambiguous; expected a plain number");
    if (!value || !std::isfinite(*value)) refuse(range());
    if (*value != std::floor(*value)) refuse(" is not whole");
    if (*value < 0 || *value > max) refuse(range());
    whole = static_cast<std::int64_t>(*value);
  }
  if (whole < 0 || whole > max) refuse(range());
  return whole;
}

std::int64_t number_in_name(std::string_view cell, std::int64_t max, const char* what) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t begin = cell.find_first_of(kDigits);
  if (begin == std::string_view::npos || begin == 0) return whole_number(cell, max, what);
  const bool is_name = std::ranges::any_of(cell, [](unsigned char c) { return std::isalpha(c) != 0; });
  if (!is_name) return whole_number(cell, max, what);
  const std::string_view digits = cell.substr(begin, cell.find_first_not_of(kDigits, begin) - begin);
  const bool is_only = cell.find_first_of(kDigits, begin + digits.size()) == std::string_view::npos;
  return whole_number(is_only ? digits : cell, max, what);
}

bool is_no_value(std::string_view cell) {
  return is_one_of(cell, {"", "-", "--", "\u2013", "NA", "N/A", "n/a", "#N/A", "<NA>", "null", "NULL", "None"});
}

void set_value(std::string_view cell, NamedValue& value, Commas commas) {
  const auto commas_in_cell = [&] { return std::ranges::count(cell, ','); };  // that of "45,123" may be in a number
  const bool has_entries =
      commas == Commas::between_entries && (commas_in_cell() > 1 || (commas_in_cell() == 1 && !printed_number(cell)));
  const bool is_clear = !has_entries && (commas == Commas::between_groups || !may_have_decimal_comma(cell));
  if (const std::optional<double> number = is_clear ? printed_number(cell) : std::nullopt) {
    value.numbers = {*number};
    return;
  }
  const std::string in_brackets = has_entries && is_digit(cell.back()) ? '[' + std::string(cell) + ']' : std::string();
  value.is_list = read_list(in_brackets.empty() ? cell : in_brackets, value) ||
                  (value.numbers.clear(), read_bare_list(cell, value));
  if (value.is_list) return;
  value.numbers.clear();
  value.rows.clear();
  value.text = cell;
  value.is_text = true;
}

}  // namespace moescope
