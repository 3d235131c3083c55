#include "core/files/text/words.h"

#include <fmt/core.h>

#include <clocale>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <vector>

#if defined(__APPLE__)
#include <xlocale.h>
#endif

namespace moescope {

std::string decimal(double value, int significant) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  if (std::fabs(value) >= 1e5 && std::fabs(value) < 1e15 && value == std::floor(value))
    return grouped(static_cast<std::int64_t>(value));
  return fmt::format("{:.{}g}", value, significant);
}

int decimal_places(double value, int digits) {
  const double size = std::fabs(value);
  if (size >= 1) return std::max(0, digits - static_cast<int>(std::log10(size)) - 1);
  const int significant = std::min(2, digits - 1);
  return size > 0 ? std::max(digits, significant - 1 - static_cast<int>(std::floor(std::log10(size)))) : 0;
}

std::string shortest(double value) {
  char text[32];
  const bool whole = std::fabs(value) < 1e16 && value == std::floor(value);
  const auto end = whole ? std::to_chars(text, text + sizeof text, static_cast<std::int64_t>(value))
                         : std::to_chars(text, text + sizeof text, value);
  return {text, end.ptr};
}

std::string percent(double share) {
  const double value = 100 * share;
  return decimal(value, std::fabs(value) >= 10 ? 3 : 2) + " %";
}

std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t sign = value < 0 ? 1 : 0;
  for (std::size_t place = digits.size(); place > sign + 3;) digits.insert(place -= 3, 1, ',');
  return digits;
}

namespace {

// Joins the first `max_named` items: "3, 7, 9 and 12 more".
std::string joined_names(const std::vector<std::string>& items, std::size_t max_named) {
  std::string text;
  const std::size_t named = std::min(items.size(), max_named);
  for (std::size_t i = 0; i < named; ++i) {
    if (i > 0) text += i + 1 == items.size() ? " and " : ", ";
    text += items[i];
  }
  if (named < items.size()) text += fmt::format(" and {} more", items.size() - named);
  return text;
}

// "100 to 139": three or more neighbours become one item.
std::vector<std::string> ranges_of(std::vector<int> numbers) {
  std::ranges::sort(numbers);
  std::vector<std::string> ranges;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (last < first + 2) last = first;
    ranges.push_back(fmt::format("{}{}", numbers[first], last > first ? fmt::format(" to {}", numbers[last]) : ""));
    first = last + 1;
  }
  return ranges;
}

}  // namespace

std::string listed(std::span<const int> numbers, std::size_t max_named) {
  if (numbers.size() > max_named)
    if (const auto ranges = ranges_of({numbers.begin(), numbers.end()}); ranges.size() <= max_named)
      return joined_names(ranges, max_named);
  std::vector<std::string> names;
  for (const int number : numbers) names.push_back(std::to_string(number));
  return joined_names(names, max_named);
}

std::string steps_in_words(std::int64_t first, std::int64_t last) {
  if (first == last) return "step " + grouped(first);
  return "steps " + grouped(first) + " to " + grouped(last);
}

std::string counted(std::int64_t n, const char* singular, const char* plural) {
  return grouped(n) + " " + (n == 1 ? singular : plural);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

#if !defined(__cpp_lib_to_chars) || defined(MOESCOPE_PORTABLE)
namespace {

// Reads with the rules of std::from_chars: no blanks, no plus sign, no hexadecimal digits, no number beyond the range.
template <class Number>
bool read_floating(std::string_view text, Number& value, Number (*read)(const char*, char**, locale_t)) {
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.find_first_not_of("0123456789.infatyINFATYeE+-") != std::string_view::npos) return false;
  if (digits.empty() || digits.front() == '+' || digits.front() == '-') return false;
  const std::string terminated(text);
  char* end = nullptr;
  value = read(terminated.c_str(), &end, plain);
  if (end != terminated.data() + terminated.size()) return false;
  const std::string_view mantissa = digits.substr(0, digits.find_first_of("eE"));
  const bool is_zero = mantissa.find_first_of("123456789") == std::string_view::npos;
  const bool has_digits = mantissa.find_first_of("0123456789") != std::string_view::npos;
  return !has_digits || (std::isfinite(value) && (value != 0 || is_zero));
}

}  // namespace

bool read_number(std::string_view text, double& value) {
  return read_floating(text, value, strtod_l);
}
bool read_number(std::string_view text, float& value) {
  return read_floating(text, value, strtof_l);
}
#endif

}  // namespace moescope
