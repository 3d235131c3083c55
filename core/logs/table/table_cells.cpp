#include "core/logs/table/table_cells.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/files/unreadable.h"
#include "core/logs/lines/printed_number.h"

namespace moescope {

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

// Adds the numbers of a list without brackets, "12 14 9" or "12;14;9". Returns false if the cell is none.
bool read_bare_list(std::string_view cell, NamedValue& value) {
  const char between = cell.find(';') == cell.npos ? ' ' : ';';
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
  return is_one_of(cell, {"", "NA", "N/A", "n/a", "#N/A", "<NA>", "null", "NULL", "None"});
}

void set_value(std::string_view cell, NamedValue& value, Commas commas) {
  const bool has_entries = commas == Commas::between_entries && std::ranges::count(cell, ',') > 1;
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
