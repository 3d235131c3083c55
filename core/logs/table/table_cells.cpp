#include "core/logs/table/table_cells.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "core/io/json_text.h"
#include "core/io/text_escape.h"
#include "core/io/unreadable.h"

namespace moescope {

namespace {

constexpr std::size_t kShownCell = 40;  // characters

std::string quoted(std::string_view cell) {
  return '"' + printable(std::string(cell.substr(0, kShownCell))) + (cell.size() > kShownCell ? "...\"" : "\"");
}

std::optional<double> plain_number(std::string_view cell) {
  if (cell.starts_with('+')) cell.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size()) return std::nullopt;
  return value;
}

bool is_grouped(std::string_view cell) {
  return !cell.empty() && cell.find_first_of(",. '_") != std::string_view::npos &&
         cell.find_first_not_of("+-0123456789,. '_") == std::string_view::npos;
}

bool is_list(std::string_view cell) {
  return cell.starts_with('[') && cell.ends_with(']') &&
         cell.find_first_not_of("[]0123456789+-.eE, \t\r\nNaninfty") == std::string_view::npos;
}

}  // namespace

std::int64_t whole_number(std::string_view cell, std::int64_t most, const char* what) {
  const auto refuse = [&](const std::string& why) { throw Unreadable(std::string(what) + ": " + quoted(cell) + why); };
  const std::string range = ", expected a whole number from 0 to " + std::to_string(most);
  std::int64_t whole = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), whole);
  const bool exact = error == std::errc() && end == cell.data() + cell.size();
  if (!exact) {
    const std::optional<double> value = plain_number(cell);
    if (!value && is_grouped(cell)) refuse(": digits that are grouped may mean two things; expected a plain number");
    if (!value || !std::isfinite(*value)) refuse(range);
    if (*value != std::floor(*value)) refuse(" is not whole");
    if (*value < 0 || *value > static_cast<double>(most)) refuse(range);
    whole = static_cast<std::int64_t>(*value);
  }
  if (whole < 0 || whole > most) refuse(range);
  return whole;
}

void append_json_value(std::string_view cell, std::string& json) {
  const std::optional<double> value = plain_number(cell);
  json += value ? json_number(*value) : is_list(cell) ? std::string(cell) : json_string(cell);
}

}  // namespace moescope
