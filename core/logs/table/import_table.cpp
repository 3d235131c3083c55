// Reads CSV tables (docs/logs.md) in three forms (table_form.h), with any usual delimiter.
// In a trace of llama.cpp, layer after layer for each evaluated batch, a batch is a step, and top_k is the number of
// rows of a layer in the smallest batch. The cells of a row of figures are read as a line of JSON (import_jsonl.h).
// Rows may have any unambiguous order (table_loads.h).

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/files/input_file.h"
#include "core/files/text/text_encoding.h"
#include "core/files/text/words.h"
#include "core/logs/lines/printed_number.h"
#include "core/logs/log_readers.h"
#include "core/logs/runs/log_runs.h"
#include "core/logs/standard_input.h"
#include "core/logs/table/csv_rows.h"
#include "core/logs/table/table_form.h"
#include "core/logs/table/table_loads.h"

namespace moescope {

namespace {

constexpr std::size_t kTablePiece = std::size_t{256} << 10;

constexpr std::size_t kLinesBetweenReports = 1024;

// Keeps the rows of a table of figures until all are read, because their order is known only then.
class TableFigures : public TableRows {
 public:
  TableFigures(LogRuns& runs, TableForm form) : TableRows(runs, std::move(form)), step_columns_{form_.step} {
    std::ranges::copy(form_.other_steps, std::back_inserter(step_columns_));
    if (form_.value >= 0 && form_.name < 0) form_.figures = {{form_.value, tag_of_file(path_), {}}};
  }

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
  void add(std::span<const std::string_view> cells, std::int64_t line) override;
  std::int64_t step_of(std::span<const std::string_view> cells);
  void sort();
  LogRecord record_of(const Row& row, std::span<const std::string_view> cells,
                      std::span<const FigureColumn> figures) const;
  void give(const Row& row, std::vector<std::string_view>& cells) const;

  std::vector<int> step_columns_;  // the column of the step, then others that had the same numbers so far
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
  std::string step(cell.empty() ? cell_at(cells, *other) : cell);
  if (printed_number(step)) std::erase(step, ',');  // "1,000": a step has no decimals
  return whole_number(step, kLastStep, "step");
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

// Returns the values of a row. `figures`: columns of one run.
LogRecord TableFigures::record_of(const Row& row, std::span<const std::string_view> cells,
                                  std::span<const FigureColumn> figures) const {
  LogRecord record;
  record.is_row = true;
  record.place = row.line;
  if (form_.step >= 0) {
    record.step = row.step;
    record.add(form_.names[form_.step], row.step);
    record.values.back().means = "step";  // also of "epoch" and "batch"
  }
  const std::string_view layer = cell_at(cells, form_.layer);
  if (!layer.empty()) record.layer = to_int(number_in_name(layer, kLastImportedLayer, "layer"));
  std::string_view run = figures.empty() ? std::string_view() : std::string_view(figures.front().run);
  if (form_.run_is_name && run.empty()) run = cell_at(cells, form_.run);
  if (!run.empty()) {
    record.add_text("run", run);
    record.values.back().is_own = true;
  }
  const std::string_view expert = cell_at(cells, form_.expert);
  const auto add = [&](std::string_view name, std::string_view cell) {
    if (name.empty() || is_no_value(cell)) return;
    const std::string expert_prefix = expert.empty() ? std::string() : "expert_" + std::string(expert) + '/';
    const bool is_load = !expert.empty() && runs_->find(expert_prefix + std::string(name));
    NamedValue& value = record.add(is_load ? record.keep(expert_prefix + std::string(name)) : name);
    set_value(cell, value, runs_->commas_in(cell, value.name));
  };
  if (std::ranges::any_of(form_.expert_loads, [&](int column) { return !is_no_value(cell_at(cells, column)); })) {
    NamedValue& loads = record.add("tokens_per_expert");
    loads.is_list = true;
    for (const int column : form_.expert_loads) {
      NamedValue load;
      const std::string_view cell = cell_at(cells, column);
      set_value(cell, load, Commas::between_groups);
      loads.numbers.push_back(load.numbers.size() == 1 ? load.numbers[0] : std::nan(""));
      if (load.numbers.size() != 1 && !is_no_value(cell))
        loads.problem = record.keep(form_.names[column] + ": \"" + std::string(cell) + "\" is not a number");
    }
  }
  if (form_.name >= 0) add(cell_at(cells, form_.name), cell_at(cells, form_.value));
  for (const FigureColumn& figure : figures)
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

// Gives a row to the run, or to each run that the names of its columns contain.
void TableFigures::give(const Row& row, std::vector<std::string_view>& cells) const {
  cells.clear();
  std::string_view unread = std::string_view(text_).substr(row.first);
  for (std::size_t i = 0; i < row.cells; ++i) cells.push_back(take_until(unread, '\0'));
  auto first = form_.figures.begin();
  do {
    const auto last =
        std::find_if(first, form_.figures.end(), [&](const auto& other) { return other.run != first->run; });
    LogRecord record = record_of(row, cells, {first, last});
    const bool is_empty = first != last && !first->run.empty() && record.values.size() == 2;  // only step and run
    try {
      if (!record.step) runs_->count(record);  // for the account: one of its names may be the step
      if (record.step && !is_empty) runs_->take(record);
    } catch (const Unreadable& unreadable) {
      runs_->count_bad(row.line, unreadable);
    }
    first = last;
  } while (first != form_.figures.end());
}

Imported TableFigures::build() {
  const auto has = [&](const char* name) { return std::ranges::find(form_.names, name) != form_.names.end(); };
  if (has("Name") && has("State") && has("Runtime") && has("Created"))
    refuse(path_,
           "is W&B's table of runs, with one row for each run: download a chart of the runs, or open a run's folder");
  sort();
  const auto& progress = runs_->context().options.progress;
  std::vector<std::string_view> cells;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    give(rows_[i], cells);
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

// Returns the number of lines; nullopt if cancelled. An unfinished last line is not read if it may be the beginning of
// one that another program is writing.
std::optional<std::int64_t> read_table(InputFile& file, std::string piece, CsvRows csv, TableRows& rows,
                                       const ImportOptions& options) {
  const double size = std::max<std::uint64_t>(1, file.size());
  const TakeCsvRow take = [&](const CsvRow& row) { rows.take(row); };
  std::uint64_t read = 0;
  for (; !piece.empty(); piece.resize(kTablePiece), piece.resize(file.read(piece.data(), piece.size()))) {
    csv.add(read == 0 ? without_byte_order_mark(piece) : std::string_view(piece), take);
    read += piece.size();
    if (options.progress && !options.progress(std::min(0.5, 0.5 * read / size))) return std::nullopt;
  }
  if (options.growing || (!file.is_decoded() && file.size() != read)) return csv.lines();
  const bool has_unended_line = csv.holds_part();
  csv.finish(take);
  return csv.lines() + has_unended_line;
}

}  // namespace

std::string tag_of_file(const std::string& path) {
  std::string stem = std::filesystem::path(named_standard_input(path)).stem().string();
  if (path.ends_with(".gz")) stem.resize(stem.size() - suffix_of(path).size());
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
  const TagMap tags = TagMap::for_log(options, path);
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
  CsvRows csv(form->delimiter);
  std::unique_ptr<TableRows> rows;
  if (form->kind == TableKind::figures)
    rows = std::make_unique<TableFigures>(runs, std::move(*form));
  else
    rows = std::make_unique<TableLoads>(runs, std::move(*form));
  std::optional<std::int64_t> lines;
  try {
    if (turned.empty()) {
      lines = read_table(file, std::move(beginning), std::move(csv), *rows, options);
    } else {
      csv.add(turned, [&](const CsvRow& row) { rows->take(row); });
      lines = csv.lines();
    }
  } catch (const Unreadable& unreadable) {
    refuse(path, unreadable.what());
  }
  if (!lines) return {};
  if (rows->empty()) refuse(path, "holds no row that can be read" + runs.context().bad.first_reason());
  Imported imported = rows->build();
  imported.lines = *lines;
  if (!imported.runs.empty() && options.progress) options.progress(1);
  return imported;
}

}  // namespace moescope
