#include "core/files/text/value_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <type_traits>

#include "core/files/text/text_escape.h"

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

std::string csv_line(const std::vector<ValueColumn>& columns, auto text_of) {
  std::string line;
  const char* separator = "";
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name.empty()) continue;
    line += separator + csv_cell(text_of(i));
    separator = ",";
  }
  return line + '\n';
}

std::size_t count_characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
}

struct TextColumn {
  std::vector<std::string> texts;  // the first of them is the name
  bool is_left = true;             // false for numbers
  std::size_t width = 0;           // in characters
};

// Returns nothing for a column without a name or value.
std::optional<TextColumn> text_column(const ValueTable& table, std::size_t index) {
  const ValueColumn& column = table.columns()[index];
  const std::string unit = unit_text(column);
  TextColumn shown{{unit.empty() ? column.name : column.name + ", " + unit}};
  bool has_value = false;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    shown.texts.push_back(cell_text(column, table.row(row)[index]));
    if (shown.texts.back() == "-") continue;
    has_value = true;
    shown.is_left &= std::holds_alternative<std::string>(table.row(row)[index]);
  }
  if (column.name.empty() || !has_value) return std::nullopt;
  for (std::string& text : shown.texts) {
    text = printable(text);
    shown.width = std::max(shown.width, count_characters(text));
  }
  return shown;
}

}  // namespace

ValueTable::ValueTable(std::initializer_list<const char*> headers) {
  for (std::string_view header : headers) {
    ValueColumn& column = columns_.emplace_back();
    if (header.size() > 2 && header[header.size() - 2] == ':') {
      column.digits = header.back() - '0';
      header.remove_suffix(2);
    }
    column.name = header.substr(0, header.find(" ["));
    if (header.size() > column.name.size()) column.unit = header.substr(column.name.size() + 2);
    if (!column.unit.empty()) column.unit.pop_back();
  }
}

std::optional<std::size_t> ValueTable::find(std::span<const TableValue> keys) const {
  for (std::size_t i = 0; i < rows(); ++i)
    if (std::ranges::equal(row(i).first(keys.size()), keys)) return i;
  return std::nullopt;
}

std::string file_text(const TableValue& value) {
  return std::visit(
      [](const auto& typed) -> std::string {
        using Type = std::decay_t<decltype(typed)>;
        if constexpr (std::is_same_v<Type, std::monostate>)
          return {};
        else if constexpr (std::is_integral_v<Type>)
          return fmt::format("{}", typed);
        else if constexpr (std::is_floating_point_v<Type>)
          return number_text(typed);
        else
          return typed;
      },
      value);
}

std::string cell_text(const ValueColumn& column, const TableValue& value) {
  if (const auto* holds = std::get_if<bool>(&value)) return *holds ? "yes" : "no";
  const auto* single = std::get_if<float>(&value);
  const auto* precise = std::get_if<double>(&value);
  if (!single && !precise) return std::holds_alternative<std::monostate>(value) ? "-" : file_text(value);
  const double number = (column.unit == "share" ? 100 : 1) * (single ? static_cast<double>(*single) : *precise);
  if (std::isnan(number)) return "-";
  if (column.format.empty()) return fmt::format("{:.{}g}", number, column.digits);
  return fmt::format(fmt::runtime("{:" + column.format + "}"), number);
}

std::string unit_text(const ValueColumn& column) {
  return column.unit == "share" ? "%" : column.unit;
}

std::string to_text(const ValueTable& table) {
  std::vector<TextColumn> columns;
  for (std::size_t i = 0; i < table.columns().size(); ++i)
    if (std::optional<TextColumn> column = text_column(table, i)) columns.push_back(std::move(*column));
  std::string text;
  for (std::size_t line = 0; !columns.empty() && line <= table.rows(); ++line) {
    for (const TextColumn& column : columns) {
      const std::string& cell = column.texts[line];
      const std::string space(column.width - count_characters(cell), ' ');
      if (&column != &columns.front()) text += "  ";
      text += column.is_left ? cell + space : space + cell;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

std::string to_csv(const ValueTable& table) {
  const std::vector<ValueColumn>& columns = table.columns();
  std::string csv = csv_line(columns, [&](std::size_t i) {
    return columns[i].unit.empty() ? columns[i].name : fmt::format("{} [{}]", columns[i].name, columns[i].unit);
  });
  for (std::size_t row = 0; row < table.rows(); ++row)
    csv += csv_line(columns, [&](std::size_t i) { return file_text(table.row(row)[i]); });
  return csv;
}

}  // namespace moescope
