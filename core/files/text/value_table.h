// A table of results: columns with names and units, rows of values. The panels of the window and the command line
// return their results in tables, from which files, readouts and printed text derive.
#pragma once

#include <cassert>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/files/text/no_value.h"

namespace moescope {

struct ValueColumn {
  std::string name{};  // "Expert bias"
  std::string unit{};  // "dB"; people read "share" in percent and "bytes" with SI prefixes; empty: texts, pure numbers
  int digits = 4;      // significant digits for people; files get all digits
  std::string
      key{};  // in JSON (report.h): "a.b" is member b of the object a, "a.0" element 0 of the array a; empty: none
  std::string format{};  // of a number in to_text(), as fmt writes it after the colon: "+.2e"; empty: by `digits`
};

// A truth, a count, a number or a text; std::monostate if there is no value.
using TableValue = std::variant<std::monostate, bool, std::int64_t, float, double, std::string>;

TableValue table_value(std::same_as<bool> auto holds) {
  return holds;
}
template <class Number>
  requires(std::integral<Number> && !std::same_as<Number, bool>)
TableValue table_value(Number count) {
  return static_cast<std::int64_t>(count);
}
// kNoValue becomes an empty cell; other NaN are values.
template <class Number>
  requires std::floating_point<Number>
TableValue table_value(Number number) {
  return is_missing(static_cast<float>(number)) ? TableValue() : TableValue(number);
}
// A number that is computed where no value is known is NaN: an empty cell.
template <class Number>
TableValue unless_nan(Number number) {
  return std::isnan(number) ? TableValue() : TableValue(number);
}
inline TableValue table_value(TableValue value) {
  return value;
}
inline TableValue table_value(std::string text) {
  return text;
}
// Without it a string literal would fit both functions above.
inline TableValue table_value(const char* text) {
  return std::string(text);
}
template <class Value>
TableValue table_value(const std::optional<Value>& value) {
  return value ? table_value(*value) : TableValue();
}

class ValueTable {
 public:
  ValueTable() = default;
  explicit ValueTable(std::vector<ValueColumn> columns) : columns_(std::move(columns)) {}
  // Names with units as in to_csv(), and digits if they are not 4: "layer", "slots [share]", "SQNR [dB]:3".
  explicit ValueTable(std::initializer_list<const char*> headers);

  const std::vector<ValueColumn>& columns() const { return columns_; }
  std::size_t rows() const { return columns_.empty() ? 0 : values_.size() / columns_.size(); }
  std::span<const TableValue> row(std::size_t row) const {
    return std::span(values_).subspan(row * columns_.size(), columns_.size());
  }
  // Adds a row that has a value for each column.
  template <class... Values>
  void add(const Values&... values) {
    assert(sizeof...(values) == columns_.size());
    (values_.push_back(table_value(values)), ...);
  }
  void add_row(std::span<const TableValue> values) {
    assert(values.size() == columns_.size());
    values_.insert(values_.end(), values.begin(), values.end());
  }
  // Adds a row of keys and, after them, a series of numbers, of which NaN are empty cells.
  void add_series(std::initializer_list<TableValue> keys, std::span<const float> numbers) {
    assert(keys.size() + numbers.size() == columns_.size());
    values_.insert(values_.end(), keys);
    for (const float number : numbers) values_.push_back(unless_nan(number));
  }
  // Returns the first row whose first values are `keys`; nullopt if there is none.
  std::optional<std::size_t> find(std::span<const TableValue> keys) const;

 private:
  std::vector<ValueColumn> columns_;
  std::vector<TableValue> values_;  // row by row
};

// The text of a value in files: as many digits as give the number back, "NaN", "inf"; empty if there is no value.
std::string file_text(const TableValue& value);
// The text of a value for a terminal, without its unit; "-" if there is no value, or NaN.
std::string cell_text(const ValueColumn& column, const TableValue& value);
std::string unit_text(const ValueColumn& column);  // the unit of cell_text(): "%" for a share
// Columns as wide as their widest text, below their names with units: texts left-aligned, numbers right-aligned. Leaves
// out columns without a name or value. Texts are made printable.
std::string to_text(const ValueTable& table);
// CSV (RFC 4180, lines end with "\n"): a header "Expert bias,SQNR [dB]", then the rows; without columns without a name.
std::string to_csv(const ValueTable& table);

}  // namespace moescope
