// Rows of CSV text, by libcsv: quoted cells, which may hold the delimiter and line ends, and every kind of line end.
//
// libcsv takes a text piece by piece and any delimiter. Debian's other parser in C++ (libfccp-dev) wants the number of
// columns and the delimiter when it is compiled, and knows no line ends in cells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace moescope {

// The cells of a row without the blanks around them, and the line at which it begins, from 1. Rows without a cell are
// passed over; too long: its cells are not kept.
struct CsvRow {
  std::span<const std::string_view> cells;
  std::int64_t line = 0;
  bool too_long = false;
};
using TakeCsvRow = std::function<void(const CsvRow&)>;

class CsvRows {
 public:
  static constexpr std::size_t kLongestRow = std::size_t{1} << 20;  // bytes
  static constexpr std::size_t kMostCells = std::size_t{1} << 16;

  explicit CsvRows(char delimiter);
  ~CsvRows();
  CsvRows(CsvRows&&) noexcept;

  // The next piece of the text. Throws Unreadable: a quoted cell that does not end.
  void add(std::string_view piece, const TakeCsvRow& take);
  void finish(const TakeCsvRow& take);  // a last row without a line end
  bool holds_part() const;              // of a row
  std::int64_t lines() const;           // that have ended

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace moescope
