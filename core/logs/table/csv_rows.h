// Reads rows of CSV text with libcsv. Cells may be quoted and then hold the delimiter and line ends; every kind of line
// end is accepted.
//
// libcsv takes the text piece by piece and any delimiter. Debian's other parser in C++ (libfccp-dev) needs the number
// of columns and the delimiter at compile time, and does not accept line ends in cells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace moescope {

// The cells of a row without surrounding blanks, and the line at which the row begins, counted from 1. Rows without a
// cell are skipped. The cells of a row that is too long are not kept. If a blank is the delimiter, no cell is empty.
struct CsvRow {
  std::span<const std::string_view> cells;
  std::int64_t line = 0;
  bool too_long = false;
};
using TakeCsvRow = std::function<void(const CsvRow&)>;

class CsvRows {
 public:
  static constexpr std::size_t kLongestRow = std::size_t{1} << 20;  // bytes
  static constexpr std::size_t kMaxCells = std::size_t{1} << 16;

  explicit CsvRows(char delimiter);
  ~CsvRows();
  CsvRows(CsvRows&&) noexcept;

  // Parses the next piece of the text. Throws Unreadable if a quoted cell does not end.
  void add(std::string_view piece, const TakeCsvRow& take);
  void finish(const TakeCsvRow& take);  // ends a last row that has no line end
  bool holds_part() const;              // true inside a row
  std::int64_t lines() const;           // lines that have ended

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace moescope
