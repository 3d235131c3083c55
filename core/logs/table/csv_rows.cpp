#include "core/logs/table/csv_rows.h"

#include <csv.h>
#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/files/unreadable.h"

namespace moescope {

namespace {

constexpr std::size_t kPiece = std::size_t{64} << 10;  // bytes given to libcsv at a time

}  // namespace

// Rows are handed out while libcsv parses. Exceptions wait until it returns, so that none is thrown through its C code.
struct CsvRows::State {
  explicit State(char delimiter) : is_blank_delimited(delimiter == ' ') {
    if (csv_init(&parser, CSV_REPALL_NL) != 0) throw std::bad_alloc();
    csv_set_delim(&parser, static_cast<unsigned char>(delimiter));
    csv_set_blk_size(&parser, kPiece);  // step by which the memory of a cell grows
  }
  ~State() { csv_free(&parser); }

  bool is_too_long() const { return bytes_in_row > kLongestRow || cells_in_row > kMaxCells; }
  void cell(const char* text, std::size_t size) {
    lines_in_row += std::count(text, text + size, '\n');
    ++cells_in_row;
    bytes_in_row += size;
    if (is_too_long() || (size == 0 && is_blank_delimited)) return;
    texts.append(text, size);
    ends.push_back(texts.size());
  }
  // `end`: the character that ends the row, -1 at the end of the text. A line feed after a carriage return belongs to
  // the same line end.
  void row(int end) {
    const bool is_line_feed_of_row = end == '\n' && last_end == '\r' && cells_in_row == 0;
    last_end = end;
    if (is_line_feed_of_row) return;
    const bool is_blank = bytes_in_row == 0 && (cells_in_row < 2 || is_blank_delimited);
    if (!is_blank && !problem) hand_out();
    line += lines_in_row + (end < 0 ? 0 : 1);
    lines_in_row = 0;
    cells_in_row = bytes_in_row = 0;
    texts.clear();
    ends.clear();
  }
  void hand_out() try {
    if (is_too_long()) ends.clear();
    cells.clear();
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      cells.push_back(std::string_view(texts).substr(begin, end - begin));
      begin = end;
    }
    (*take)({cells, line, is_too_long()});
  } catch (...) {
    problem = std::current_exception();
  }
  void check(bool parsed) {
    if (problem) std::rethrow_exception(std::exchange(problem, nullptr));
    if (parsed) return;
    if (csv_error(&parser) == CSV_ENOMEM) throw std::bad_alloc();
    throw Unreadable("is no CSV");
  }

  csv_parser parser{};
  const bool is_blank_delimited;  // any number of blanks separates cells
  const TakeCsvRow* take = nullptr;
  std::exception_ptr problem;
  std::string texts;                    // of the cells of the current row
  std::vector<std::size_t> ends;        // of the cells in `texts`
  std::vector<std::string_view> cells;  // of the row that is handed out
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
  s.take = &take;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, kPiece);
    text.remove_prefix(piece.size());
    s.check(csv_parse(&s.parser, piece.data(), piece.size(), take_cell, take_row, &s) == piece.size());
    if (s.parser.entry_pos > kLongestRow)
      throw Unreadable(
          fmt::format("line {}: a cell of more than {} MiB: is there a quotation mark that no other one closes?",
                      s.line, kLongestRow >> 20));
  }
}

void CsvRows::finish(const TakeCsvRow& take) {
  State& s = *state_;
  s.take = &take;
  s.check(csv_fini(&s.parser, take_cell, take_row, &s) == 0);
}

bool CsvRows::holds_part() const {
  return state_->cells_in_row > 0 || state_->parser.entry_pos > 0 || state_->parser.pstate != 0;
}

std::int64_t CsvRows::lines() const {
  return state_->line - 1;
}

}  // namespace moescope
