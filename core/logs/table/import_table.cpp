#include "core/logs/table/import_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/files/input_file.h"
#include "core/files/text/text_encoding.h"
#include "core/files/text/words.h"
#include "core/logs/lines/printed_number.h"
#include "core/logs/runs/log_runs.h"
#include "core/logs/standard_input.h"
#include "core/logs/table/csv_rows.h"
#include "core/logs/table/table_cells.h"
#include "core/logs/table/table_form.h"
#include "core/logs/table/table_loads.h"

namespace moescope {

namespace {

constexpr std::size_t kTablePiece = std::size_t{256} << 10;

constexpr std::size_t kLinesBetweenReports = 1024;

// Keeps the rows of a table of figures until all are read, because their order is known only then.
class TableFigures : public TableRows {
 public:
  TableFigures(LogRuns& runs, TableForm form)
      : runs_(&runs), path_(runs.context().source), form_(std::move(form)), step_columns_{form_.step} {
    std::ranges::copy(form_.other_steps, std::back_inserter(step_columns_));
    if (form_.value >= 0 && form_.name < 0) form_.figures = {{form_.value, tag_of_file(path_), {}}};
    has_runs_ = !form_.figures.empty() && !form_.figures.front().run.empty();
  }

  void add(std::span<const std::string_view> cells, std::int64_t line) override;
  bool empty() const override { return rows_.empty(); }
  // Throws std::runtime_error if no row has a known figure, or if the order does not tell which rows count.
  Imported build() override;

 private:
  struct Row {
    std::int64_t step, line;
    std::size_t first;  // in text_: its cells, each of which ends with a zero byte
    std::size_t cells;
  };
  static std::string_view cell_at(std::span<const std::string_view> cells, int column) {
    return column >= 0 && static_cast<std::size_t>(column) < cells.size() ? cells[column] : std::string_view();
  }
  std::int64_t step_of(std::span<const std::string_view> cells);
  void sort();
  LogRecord record_of(const Row& row, std::span<const std::string_view> cells, std::string_view run) const;
  void take(const Row& row, std::vector<std::string_view>& cells) const;

  LogRuns* runs_;
  const std::string& path_;
  TableForm form_;
  std::vector<int> step_columns_;  // the column of the step, then others that had the same numbers so far
  bool has_runs_ = false;          // the names of the columns of figures contain their runs
  TableOrder order_;
  std::string text_;
  std::vector<Row> rows_;
};

// Returns the step of a row. A row without a cell for it may have it in a column that agreed in all rows before.
std::int64_t TableFigures::step_of(std::span<const std::string_view> cells) {
  const std::string_view cell = cell_at(cells, form_.step);
  const auto other = std::ranges::find_if(step_columns_, [&](int column) { return !cell_at(cells, column).empty(); });
  if (other == step_columns_.end()) throw Unreadable("no step");
  if (!cell.empty())
    std::erase_if(step_columns_, [&](int column) {
      return column != form_.step && !cell_at(cells, column).empty() && cell_at(cells, column) != cell;
    });
  return whole_number(cell.empty() ? cell_at(cells, *other) : cell, kLastStep, "step");
}

void TableFigures::add(std::span<const std::string_view> cells, std::int64_t line) {
  if (cells.size() > form_.names.size()) throw Unreadable("has more cells than the header has columns");
  const std::int64_t step = form_.step < 0 ? std::ssize(rows_) : step_of(cells);
  const std::string_view layer = cell_at(cells, form_.layer), name = cell_at(cells, form_.name);
  if (!layer.empty()) number_in_name(layer, kLastImportedLayer, "layer");
  const std::string_view run = form_.run_is_name ? cell_at(cells, form_.run) : std::string_view();
  const std::size_t series = std::hash<std::string_view>()(run) * 31 + std::hash<std::string_view>()(name);
  rows_.push_back({step, line, text_.size(), cells.size()});
  for (const std::string_view cell : cells) (text_ += cell) += '\0';
  order_.add(step, series % 0xFFFFFFFBu << 12 ^ std::hash<std::string_view>()(layer) % (1u << 12),
             std::hash<std::string_view>()(cell_at(cells, form_.expert)) % kMaxImportedExperts, line);
  check_table_bytes(text_.size() + rows_.size() * sizeof(Row) + order_.bytes(), path_, line);
}

// Returns the values of a row for one run; `run`: empty if the columns do not name runs.
LogRecord TableFigures::record_of(const Row& row, std::span<const std::string_view> cells, std::string_view run) const {
  LogRecord record;
  record.is_row = true;
  record.place = row.line;
  if (form_.step >= 0) {
    record.step = row.step;
    record.add(form_.names[form_.step], row.step);
  }
  const std::string_view layer = cell_at(cells, form_.layer);
  if (!layer.empty()) record.layer = to_int(number_in_name(layer, kLastImportedLayer, "layer"));
  if (form_.run_is_name && !has_runs_) run = cell_at(cells, form_.run);
  if (!run.empty()) {
    record.add_text("run", run);
    record.values.back().is_own = true;
  }
  const std::string_view expert = cell_at(cells, form_.expert);
  const auto add = [&](std::string_view name, std::string_view cell) {
    if (name.empty() || is_no_value(cell)) return;
    const std::string of_expert = expert.empty() ? std::string() : "expert_" + std::string(expert) + '/';
    const bool is_load = !expert.empty() && runs_->find(of_expert + std::string(name));
    set_value(cell, record.add(is_load ? record.keep(of_expert + std::string(name)) : name));
  };
  if (std::ranges::any_of(form_.expert_loads, [&](int column) { return !is_no_value(cell_at(cells, column)); })) {
    NamedValue& loads = record.add("tokens_per_expert");
    loads.is_list = true;
    for (const int column : form_.expert_loads) {
      NamedValue load;
      set_value(cell_at(cells, column), load);
      loads.numbers.push_back(load.numbers.size() == 1 ? load.numbers[0] : std::nan(""));
    }
  }
  if (form_.name >= 0) add(cell_at(cells, form_.name), cell_at(cells, form_.value));
  for (const FigureColumn& figure : form_.figures)
    if (figure.run == run || !has_runs_)
      if (figure.column != form_.run || !form_.run_is_name) add(figure.name, cell_at(cells, figure.column));
  return record;
}

// Reverses the rows if the newest is first. Sorts them by step if each layer or figure has its own row, because such
// rows may be sorted by layer or name. Otherwise a late row, such as one of a validation, stays where it is.
void TableFigures::sort() {
  if (order_.kind_of(path_) == TableOrder::Kind::newest_first) std::ranges::reverse(rows_);
  const bool is_row_a_part = form_.layer >= 0 || form_.name >= 0;
  if (is_row_a_part && !order_.goes_back()) std::ranges::stable_sort(rows_, {}, &Row::step);
}

void TableFigures::take(const Row& row, std::vector<std::string_view>& cells) const {
  cells.clear();
  std::string_view unread = std::string_view(text_).substr(row.first);
  for (std::size_t i = 0; i < row.cells; ++i) cells.push_back(take_until(unread, '\0'));
  std::string_view run = has_runs_ ? std::string_view(form_.figures.front().run) : std::string_view();
  for (std::size_t i = 0;;) {
    LogRecord record = record_of(row, cells, run);
    const bool is_empty = has_runs_ && record.values.size() == 2;  // other runs may have a value at this step
    try {
      if (!record.step) runs_->count(record);  // for the account: one of its names may be the step
      if (record.step && !is_empty) runs_->take(record);
    } catch (const Unreadable& unreadable) {
      runs_->count_bad(row.line, unreadable);
    }
    while (i < form_.figures.size() && form_.figures[i].run == run) ++i;
    if (!has_runs_ || i == form_.figures.size()) return;
    run = form_.figures[i].run;
  }
}

Imported TableFigures::build() {
  sort();
  const auto& progress = runs_->context().options.progress;
  std::vector<std::string_view> cells;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    take(rows_[i], cells);
    if (progress && i % kLinesBetweenReports == 0 && !progress(0.5 + 0.5 * i / rows_.size())) return {};
  }
  if (form_.step < 0)
    return runs_->finish(rows_.size(),
                         ": no column is known as the step; state means = \"step\" for it in a mapping file");
  return runs_->finish(rows_.size(), form_.value >= 0 && form_.name < 0
                                         ? ". The name of the file must name the column Value, as TensorBoard does: "
                                           "run-RUN-tag-train_loss.csv"
                                         : "");
}

class TableReader {
 public:
  TableReader(LogRuns& runs, TableForm form) : runs_(&runs), form_(std::move(form)), csv_(form_.delimiter) {
    if (form_.kind == TableKind::figures)
      rows_ = std::make_unique<TableFigures>(runs, form_);
    else
      rows_ = std::make_unique<TableLoads>(runs, form_);
  }

  void add(std::string_view piece) { csv_.add(piece, take_); }
  void finish() {
    if (csv_.holds_part()) ++unended_;
    csv_.finish(take_);
  }
  bool empty() const { return rows_->empty(); }
  std::int64_t lines() const { return csv_.lines() + unended_; }
  Imported build() {
    Imported imported = rows_->build();
    imported.lines = lines();
    return imported;
  }

 private:
  void take(const CsvRow& row) {
    const std::span names = std::span(form_.names).subspan(form_.names.size() > row.cells.size() ? 1 : 0);
    if (form_.has_header && std::ranges::equal(row.cells, names)) return;  // also repeated in joined files
    if (row.too_long) return runs_->count_bad(row.line, Unreadable("too long"));
    if (is_table_remark(row.cells)) return;
    if (form_.header_rows > 1 && rows_of_header_++ < form_.header_rows) return;
    check_run(row);
    try {
      if (form_.has_decimal_commas)
        add_with_points(row);
      else
        rows_->add(row.cells, row.line);
    } catch (const Unreadable& unreadable) {
      runs_->count_bad(row.line, unreadable);
    }
  }

  // Adds a row of which the decimal commas are written as points.
  void add_with_points(const CsvRow& row) {
    std::vector<std::string> texts(row.cells.begin(), row.cells.end());
    for (std::string& text : texts) write_decimal_point(text);
    const std::vector<std::string_view> cells(texts.begin(), texts.end());
    rows_->add(cells, row.line);
  }

  // Throws std::runtime_error if the row belongs to another run than the rows before. Not needed if each line of a
  // table of figures gives the name of its run to LogRuns, which separates the runs.
  void check_run(const CsvRow& row) {
    const std::size_t column = form_.run;
    if (form_.run < 0 || column >= row.cells.size()) return;
    if (form_.kind == TableKind::figures && form_.run_is_name) return;
    if (!run_) run_ = row.cells[column];
    if (*run_ == row.cells[column]) return;
    refuse(runs_->context().source,
           fmt::format("line {}: the column {} names another run than the rows before: write each run to its own table",
                       row.line, form_.names[column]));
  }

  LogRuns* runs_;
  std::unique_ptr<TableRows> rows_;
  TableForm form_;
  std::optional<std::string> run_;
  std::size_t rows_of_header_ = 0;  // that were read
  CsvRows csv_;
  std::int64_t unended_ = 0;
  TakeCsvRow take_ = [this](const CsvRow& row) { take(row); };
};

// Returns the first bytes of the file with its whole header, which is long if it has a name for each expert of each
// layer.
std::string first_piece(InputFile& file, const std::string& path) {
  std::string piece;
  while (piece.size() < CsvRows::kLongestRow && piece.find_first_of("\r\n") == std::string::npos) {
    const std::size_t before = piece.size();
    piece.resize(before + kTablePiece);
    piece.resize(before + file.read(piece.data() + before, kTablePiece));
    if (piece.size() == before) break;
  }
  if (const std::string problem = encoding_problem(piece); !problem.empty()) refuse(path, problem);
  return piece;
}

// True if the unfinished last line may be the beginning of a line that another program is writing.
bool may_go_on(const InputFile& file, std::uint64_t read, const ImportOptions& options) {
  return options.growing || file.size() != read;
}

// Returns false if cancelled.
bool read_table(InputFile& file, std::string piece, TableReader& reader, const ImportOptions& options) {
  const double size = std::max<std::uint64_t>(1, file.size());
  std::uint64_t read = 0;
  for (; !piece.empty(); piece.resize(kTablePiece), piece.resize(file.read(piece.data(), piece.size()))) {
    reader.add(read == 0 ? without_byte_order_mark(piece) : std::string_view(piece));
    read += piece.size();
    if (options.progress && !options.progress(std::min(0.5, 0.5 * read / size))) return false;
  }
  if (!may_go_on(file, read, options)) reader.finish();
  return true;
}

}  // namespace

std::string tag_of_file(const std::string& path) {
  std::string stem = std::filesystem::path(named_standard_input(path)).stem().string();
  if (const std::size_t copy = stem.rfind(" ("); copy != std::string::npos && stem.ends_with(')')) stem.resize(copy);
  const std::size_t tag = stem.rfind("-tag-");
  return tag == std::string::npos ? stem : stem.substr(tag + 5);
}

std::string table_header(const std::string& path) {
  InputFile file(path);
  const std::string beginning = first_piece(file, path);
  const std::string line = beginning.substr(0, beginning.find_first_of("\r\n"));
  const std::optional<TableForm> form = table_form(line, true);
  return form && form->has_header ? line : std::string();
}

Imported import_table(const std::string& path, const ImportOptions& options) {
  InputFile file(path);
  std::string beginning = first_piece(file, path);
  const TagMap tags = TagMap::of_log(options, path);
  std::optional<TableForm> form = table_form(beginning, true, tags);
  const bool begins_with_row = !form || !form->has_header;
  if (begins_with_row && !options.table_header.empty()) form = table_form(options.table_header, true, tags);
  const std::string turned = form ? std::string() : turned_table(path);
  if (!turned.empty()) form = table_form(turned, true, tags);
  if (!form)
    refuse(path,
           "is not a table of a run: expected the columns step, layer, expert and count; layer and "
           "expert; or step and a column for each figure");
  LogRuns runs(path, options, false, "line");
  TableReader reader(runs, std::move(*form));
  try {
    if (turned.empty() && !read_table(file, std::move(beginning), reader, options)) return {};
    reader.add(turned);
  } catch (const Unreadable& unreadable) {
    refuse(path, unreadable.what());
  }
  if (reader.empty()) refuse(path, "holds no row that can be read" + runs.context().bad.first_reason());
  Imported imported = reader.build();
  if (!imported.runs.empty() && options.progress) options.progress(1);
  return imported;
}

}  // namespace moescope
