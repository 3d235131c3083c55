#include "core/logs/table/csv_rows.h"

#include <csv.h>
#include <fmt/core.h>

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "core/files/unreadable.h"

namespace moescope {

namespace {

constexpr std::size_t kPiece = std::size_t{64} << 10;  // bytes given to libcsv at a time

struct Cell {
  std::size_t begin, size;
};
struct EndedRow {
  std::size_t first_cell, cells;
  std::int64_t line;
  bool too_long;
};

}  // namespace

// Rows are kept until libcsv returns, so that no exception is thrown through its C code.
struct CsvRows::State {
  explicit State(char delimiter) {
    if (csv_init(&parser, CSV_REPALL_NL) != 0) throw std::bad_alloc();
    csv_set_delim(&parser, static_cast<unsigned char>(delimiter));
    csv_set_blk_size(&parser, kPiece);  // step by which the memory of a cell grows
  }
  ~State() { csv_free(&parser); }

  void cell(const char* text, std::size_t size) {
    const std::string_view cell(text, size);
    lines_in_row += std::ranges::count(cell, '\n');
    ++cells_in_row;
    bytes_in_row += size;
    if (bytes_in_row > kLongestRow || cells_in_row > kMaxCells) {
      drop_cells();
      return;
    }
    cells.push_back({texts.size(), size});
    texts += cell;
  }
  void drop_cells() {
    texts.resize(row_texts);
    cells.resize(row_cells);
  }
  // `end`: the character that ends the row, -1 at the end of the text. A line feed after a carriage return belongs to
  // the same line end.
  void row(int end) {
    if (end == '\n' && last_end == '\r' && cells_in_row == 0) {
      last_end = end;
      return;
    }
    last_end = end;
    const bool too_long = bytes_in_row > kLongestRow || cells_in_row > kMaxCells;
    const bool blank = cells_in_row == 1 && bytes_in_row == 0;
    if (blank) drop_cells();
    if (cells_in_row > 0 && !blank) rows.push_back({row_cells, cells.size() - row_cells, line, too_long});
    line += lines_in_row + (end < 0 ? 0 : 1);
    lines_in_row = 0;
    cells_in_row = bytes_in_row = 0;
    row_cells = cells.size();
    row_texts = texts.size();
  }
  void hand_out(const TakeCsvRow& take) {
    std::vector<std::string_view> views;
    for (const EndedRow& ended : rows) {
      views.clear();
      for (std::size_t i = 0; i < ended.cells; ++i) {
        const Cell& cell = cells[ended.first_cell + i];
        views.push_back(std::string_view(texts).substr(cell.begin, cell.size));
      }
      take({views, ended.line, ended.too_long});
    }
    rows.clear();
    cells.erase(cells.begin(), cells.begin() + row_cells);
    texts.erase(0, row_texts);
    for (Cell& cell : cells) cell.begin -= row_texts;
    row_cells = row_texts = 0;
  }
  void check(bool parsed) const {
    if (parsed) return;
    if (csv_error(const_cast<csv_parser*>(&parser)) == CSV_ENOMEM) throw std::bad_alloc();
    throw Unreadable("is no CSV");
  }

  csv_parser parser{};
  std::string texts;  // text of the ended rows that are not yet handed out, and of the current row
  std::vector<Cell> cells;
  std::vector<EndedRow> rows;
  std::size_t row_cells = 0, row_texts = 0;  // where the current row begins
  std::size_t cells_in_row = 0, bytes_in_row = 0;
  std::int64_t line = 1, lines_in_row = 0;
  int last_end = -1;
};

namespace {

extern "C" void take_cell(void* text, std::size_t size, void* state) {
  static_cast<CsvRows::State*>(state)->cell(static_cast<const char*>(text), size);
}
extern "C" void take_row(int end, void* state) {
  static_cast<CsvRows::State*>(state)->row(end);
}

}  // namespace

CsvRows::CsvRows(char delimiter) : state_(std::make_unique<State>(delimiter)) {}
CsvRows::~CsvRows() = default;
CsvRows::CsvRows(CsvRows&&) noexcept = default;

void CsvRows::add(std::string_view text, const TakeCsvRow& take) {
  State& s = *state_;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, kPiece);
    text.remove_prefix(piece.size());
    s.check(csv_parse(&s.parser, piece.data(), piece.size(), take_cell, take_row, &s) == piece.size());
    s.hand_out(take);
    if (s.parser.entry_pos > kLongestRow)
      throw Unreadable(
          fmt::format("line {}: a cell of more than {} MiB: is there a quotation mark that no other one closes?",
                      s.line, kLongestRow >> 20));
  }
}

void CsvRows::finish(const TakeCsvRow& take) {
  State& s = *state_;
  s.check(csv_fini(&s.parser, take_cell, take_row, &s) == 0);
  s.hand_out(take);
}

bool CsvRows::holds_part() const {
  return state_->cells_in_row > 0 || state_->parser.entry_pos > 0 || state_->parser.pstate != 0;
}

std::int64_t CsvRows::lines() const {
  return state_->line - 1;
}

}  // namespace moescope
