#include "core/logs/table/import_table.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/io/csv_rows.h"
#include "core/io/input_file.h"
#include "core/io/json_text.h"
#include "core/io/text_encoding.h"
#include "core/io/unreadable.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/logs/table/table_cells.h"
#include "core/logs/table/table_form.h"
#include "core/logs/table/table_loads.h"
#include "core/logs/tag_map.h"

namespace moescope {

namespace {

constexpr std::size_t kTablePiece = std::size_t{256} << 10;

constexpr std::int64_t kMaxFigureStep = 1'000'000'000'000'000;
constexpr std::size_t kLinesBetweenReports = 1024;

// Reads each row of a table of figures as a line of JSON (import_jsonl.h), which knows the names of all logs.
class TableFigures {
 public:
  TableFigures(std::string path, TableForm form) : path_(std::move(path)), form_(std::move(form)) {}

  // Throws Unreadable if the row has no step; std::runtime_error if the table takes more than kMostTableBytes.
  void add(std::span<const std::string_view> cells, std::int64_t line);
  bool empty() const { return lines_.empty(); }
  // Throws std::runtime_error if no row has a known figure, or if the order does not tell which rows count.
  void build(const ImportOptions& options, Imported& imported);

 private:
  struct Line {
    std::int64_t step, number;
    std::size_t first, end;  // range of its text
  };
  void sort();

  std::string path_;
  TableForm form_;
  TableOrder order_;
  std::string text_;
  std::vector<Line> lines_;
};

void TableFigures::add(std::span<const std::string_view> cells, std::int64_t line) {
  const auto column = [&](int which) {
    return which >= 0 && static_cast<std::size_t>(which) < cells.size() ? cells[static_cast<std::size_t>(which)]
                                                                        : std::string_view();
  };
  const std::string_view step_cell = column(form_.step);
  if (step_cell.empty()) throw Unreadable("no step");
  if (cells.size() > form_.names.size()) throw Unreadable("has more cells than the header has columns");
  const std::int64_t step = whole_number(step_cell, kMaxFigureStep, "step");
  const std::string_view layer = column(form_.layer);
  const std::size_t first = text_.size();
  text_ += "{\"step\":" + std::to_string(step);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool is_step = static_cast<int>(i) == form_.step || std::ranges::count(form_.other_steps, i) > 0;
    if (is_step || cells[i].empty()) continue;
    text_ += ',';
    text_ += json_string(static_cast<int>(i) == form_.layer ? "layer" : form_.names[i]);
    text_ += ':';
    append_json_value(cells[i], text_);
  }
  text_ += '}';
  const auto of_layer =
      static_cast<std::uint64_t>(layer.empty() ? 0 : whole_number(layer, kLastImportedLayer, "layer"));
  order_.add(step, std::hash<std::string_view>()(column(form_.run)) % 0xFFFFFFFBu << 12 ^ of_layer, 0, line);
  lines_.push_back({step, line, first, text_.size()});
  if (text_.size() + lines_.size() * sizeof(Line) + order_.bytes() > kMostTableBytes)
    throw std::runtime_error(path_ + ": line " + std::to_string(line) + ": the rows so far take more than " +
                             std::to_string(kMostTableBytes >> 30) +
                             " GiB: write them as JSON lines, which are read step by step, or fewer steps");
}

// Rows may be sorted by layer if each layer has its own row; otherwise a late row, such as one of a validation, stays
// where it is.
void TableFigures::sort() {
  const TableOrder::Kind kind = order_.kind();
  if (kind == TableOrder::Kind::lost) throw std::runtime_error(path_ + ": " + order_.going_back());
  if (kind == TableOrder::Kind::newest_first) std::ranges::reverse(lines_);
  if (form_.layer >= 0 && !order_.goes_back()) std::ranges::stable_sort(lines_, {}, &Line::step);
}

void TableFigures::build(const ImportOptions& options, Imported& imported) {
  sort();
  LogReader reader(path_, options);
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    reader.read_line(std::string_view(text_).substr(lines_[i].first, lines_[i].end - lines_[i].first));
    if (options.progress && i % kLinesBetweenReports == 0 &&
        !options.progress(0.5 + 0.5 * static_cast<double>(i) / static_cast<double>(lines_.size())))
      return;
  }
  reader.finish_step();
  // The reader counts the lines that it was given; translates them into lines of the table.
  for (const BadLine& bad : reader.first_bad_lines())
    imported.bad.add(lines_[static_cast<std::size_t>(bad.number - 1)].number, bad.why);
  for (std::int64_t more = imported.bad.count(); more < reader.bad_lines(); ++more) imported.bad.add(0, {});
  imported.runs = reader.histories();
  imported.remarks = reader.remarks();
  if (const std::string refusal = reader.refusal(); !options.growing && !refusal.empty())
    throw std::runtime_error(path_ + ": " + refusal);
  if (!imported.runs.empty()) return;
  throw std::runtime_error(path_ + ": none of its columns is a figure that is known" + imported.bad.first_reason());
}

using TableRows = std::variant<TableLoads, TableFigures>;

class TableReader {
 public:
  TableReader(const std::string& path, TableForm form)
      : rows_(form.kind == TableKind::figures ? TableRows(TableFigures(path, form))
                                              : TableRows(TableLoads(path, form))),
        path_(path),
        form_(std::move(form)),
        csv_(form_.delimiter) {}

  void add(std::string_view piece) { csv_.add(piece, take_); }
  void finish() {
    if (csv_.holds_part()) ++unended_;
    csv_.finish(take_);
  }
  bool empty() const {
    return std::visit([](const auto& rows) { return rows.empty(); }, rows_);
  }
  std::int64_t lines() const { return csv_.lines() + unended_; }
  BadLines& bad() { return bad_; }
  TableRows& rows() { return rows_; }

 private:
  void take(const CsvRow& row) {
    if (form_.has_header && std::ranges::equal(row.cells, form_.names)) return;  // repeated header of joined files
    if (row.too_long) return bad_.add(row.line, "too long");
    if (is_table_remark(row.cells.front())) return;
    check_run(row);
    try {
      std::visit([&](auto& rows) { rows.add(row.cells, row.line); }, rows_);
    } catch (const Unreadable& unreadable) {
      bad_.add(row.line, unreadable.what());
    }
  }

  // Figures have their run in each line (log_reader.h) if the column is called "run".
  void check_run(const CsvRow& row) {
    const auto column = static_cast<std::size_t>(form_.run);
    if (form_.run < 0 || column >= row.cells.size()) return;
    if (form_.kind == TableKind::figures && spelled_alike(form_.names[column]) == "run") return;
    if (!run_) run_ = row.cells[column];
    if (*run_ == row.cells[column]) return;
    throw std::runtime_error(path_ + ": line " + std::to_string(row.line) + ": the column " + form_.names[column] +
                             " tells of another run than the rows before: give each run a table of its own");
  }

  TableRows rows_;
  std::string path_;
  TableForm form_;
  std::optional<std::string> run_;
  CsvRows csv_;
  BadLines bad_;
  std::int64_t unended_ = 0;
  TakeCsvRow take_ = [this](const CsvRow& row) { take(row); };
};

std::string first_piece(InputFile& file, const std::string& path) {
  std::string piece(kTablePiece, '\0');
  piece.resize(file.read(piece.data(), piece.size()));
  if (const std::string problem = encoding_problem(piece); !problem.empty())
    throw std::runtime_error(path + ": " + problem);
  return piece;
}

// True if the unfinished last line may be the beginning of one that another program is writing.
bool may_go_on(const InputFile& file, std::uint64_t read, const ImportOptions& options) {
  return options.growing || file.size() != read;
}

// Returns false if cancelled.
bool read_table(InputFile& file, std::string piece, TableReader& reader, const ImportOptions& options) {
  const auto size = static_cast<double>(std::max<std::uint64_t>(1, file.size()));
  std::uint64_t read = 0;
  for (; !piece.empty(); piece.resize(kTablePiece), piece.resize(file.read(piece.data(), piece.size()))) {
    reader.add(read == 0 ? without_byte_order_mark(piece) : std::string_view(piece));
    read += piece.size();
    if (options.progress && !options.progress(std::min(0.5, 0.5 * static_cast<double>(read) / size))) return false;
  }
  if (!may_go_on(file, read, options)) reader.finish();
  return true;
}

}  // namespace

Imported import_table(const std::string& path, const ImportOptions& options) {
  InputFile file(path);
  std::string beginning = first_piece(file, path);
  std::optional<TableForm> form = table_form(beginning, true);
  if (!form)
    throw std::runtime_error(path +
                             ": is no table of a run: expected the columns step, layer, expert and count; layer and "
                             "expert; or step and a column for each figure");
  TableReader reader(path, std::move(*form));
  Imported imported;
  try {
    if (!read_table(file, std::move(beginning), reader, options)) return {};
  } catch (const Unreadable& unreadable) {
    throw std::runtime_error(path + ": " + unreadable.what());
  }
  imported.lines = reader.lines();
  imported.bad = std::move(reader.bad());
  if (reader.empty()) throw std::runtime_error(path + ": holds no row that can be read" + imported.bad.first_reason());
  if (auto* loads = std::get_if<TableLoads>(&reader.rows())) {
    if (auto history = loads->build(options, imported.remarks)) imported.runs = {std::move(history)};
  } else {
    std::get<TableFigures>(reader.rows()).build(options, imported);
  }
  if (imported.runs.empty()) return {};
  if (options.progress) options.progress(1);
  return imported;
}

}  // namespace moescope
