#include "core/io/value_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>

namespace moescope {
namespace {

// Returns the shortest text that reads back as the same number.
std::string number_text(auto number) {
  if (std::isnan(number)) return "NaN";
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

std::string csv_cell(std::string text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char character : text) quoted += character == '"' ? "\"\"" : std::string(1, character);
  return quoted + '"';
}

std::string csv_line(std::size_t cells, auto text_of) {
  std::string line;
  for (std::size_t i = 0; i < cells; ++i) line += (i > 0 ? "," : "") + csv_cell(text_of(i));
  return line + '\n';
}

}  // namespace

std::optional<std::size_t> ValueTable::find(std::span<const TableValue> keys) const {
  for (std::size_t i = 0; i < rows(); ++i)
    if (std::ranges::equal(row(i).first(keys.size()), keys)) return i;
  return std::nullopt;
}

std::string file_text(const TableValue& value) {
  return std::visit(
      [](const auto& typed) -> std::string {
        using Type = std::decay_t<decltype(typed)>;
        if constexpr (std::is_same_v<Type, std::monostate>) {
          return {};
        } else if constexpr (std::is_integral_v<Type>) {
          return std::to_string(typed);
        } else if constexpr (std::is_floating_point_v<Type>) {
          return number_text(typed);
        } else {
          return typed;
        }
      },
      value);
}

std::string to_csv(const ValueTable& table) {
  const std::vector<ValueColumn>& columns = table.columns();
  std::string csv = csv_line(columns.size(), [&](std::size_t i) {
    return columns[i].unit.empty() ? columns[i].name : columns[i].name + " [" + columns[i].unit + ']';
  });
  for (std::size_t row = 0; row < table.rows(); ++row)
    csv += csv_line(columns.size(), [&](std::size_t i) { return file_text(table.row(row)[i]); });
  return csv;
}

}  // namespace moescope
