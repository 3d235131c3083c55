#include "core/logs/table/import_table.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/files/input_file.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_encoding.h"
#include "core/files/text/words.h"
#include "core/files/unreadable.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/logs/run_choice.h"
#include "core/logs/table/csv_rows.h"
#include "core/logs/table/table_cells.h"
#include "core/logs/table/table_form.h"
#include "core/logs/table/table_loads.h"

namespace moescope {

namespace {

constexpr std::size_t kTablePiece = std::size_t{256} << 10;

constexpr std::int64_t kMaxFigureStep = 1'000'000'000'000'000;
constexpr std::size_t kLinesBetweenReports = 1024;

// Returns the name of the values in a download of TensorBoard, which is part of the file's name: "train_loss" for
// "run-a-tag-train_loss (1).csv".
std::string tag_of_file(const std::string& path) {
  std::string stem = std::filesystem::path(path).stem().string();
  if (const std::size_t copy = stem.rfind(" ("); copy != std::string::npos && stem.ends_with(')')) stem.resize(copy);
  const std::size_t tag = stem.rfind("-tag-");
  return tag == std::string::npos ? stem : stem.substr(tag + 5);
}

// Converts each row of a table of figures to lines of JSON, because their reader (import_jsonl.h) knows the names of
// all logs.
class TableFigures {
 public:
  TableFigures(std::string path, TableForm form) : path_(std::move(path)), form_(std::move(form)) {
    if (form_.value >= 0 && form_.name < 0) form_.figures = {{form_.value, tag_of_file(path_), {}}};
    has_runs_ = !form_.figures.empty() && !form_.figures.front().run.empty();
    for (const FigureColumn& figure : form_.figures) names_.push_back(',' + json_string(figure.name) + ':');
  }

  // Throws Unreadable if the row has no step; std::runtime_error if the table takes more than kMaxTableBytes.
  void add(std::span<const std::string_view> cells, std::int64_t line);
  bool empty() const { return lines_.empty(); }
  // Throws std::runtime_error if no row has a known figure, or if the order of the rows does not tell which rows count.
  void build(const ImportOptions& options, Imported& imported);

 private:
  struct Line {
    std::int64_t step, number;
    std::size_t first, end;  // range in text_: the beginning of a JSON object, then its values
  };
  static std::string_view cell_at(std::span<const std::string_view> cells, int column) {
    return column >= 0 && static_cast<std::size_t>(column) < cells.size() ? cells[column] : std::string_view();
  }
  void begin_line(std::int64_t step, std::int64_t number, std::string_view layer, std::string_view run);
  void add_value(std::size_t figure, std::string_view cell);
  void add_loads(std::span<const std::string_view> cells);
  void end_line();
  std::string_view json_of(const Line& line);
  void sort();

  std::string path_;
  TableForm form_;
  bool has_runs_ = false;           // the names of the columns of figures contain their runs
  std::vector<std::string> names_;  // names of the columns of figures, as JSON: ,"loss":
  TableOrder order_;
  std::string text_, json_;
  std::vector<Line> lines_;
};

// Appends a value as "\n3 2.5". The number of its figure, 3, stands for the name, which may be much longer than the
// value.
void TableFigures::add_value(std::size_t figure, std::string_view cell) {
  if (is_no_value(cell)) return;
  text_ += '\n' + std::to_string(figure) + ' ';
  append_json_value(cell, text_);
}

void TableFigures::add_loads(std::span<const std::string_view> cells) {
  const auto has_value = [&](int column) { return !is_no_value(cell_at(cells, column)); };
  if (std::ranges::none_of(form_.expert_loads, has_value)) return;
  text_ += ",\"tokens_per_expert\":[";
  for (const int column : form_.expert_loads) {
    if (column != form_.expert_loads.front()) text_ += ',';
    append_json_value(cell_at(cells, column), text_);
  }
  text_ += ']';
}

void TableFigures::begin_line(std::int64_t step, std::int64_t number, std::string_view layer, std::string_view run) {
  lines_.push_back({step, number, text_.size(), 0});
  text_ += "{\"step\":" + std::to_string(step);
  if (!layer.empty()) text_ += ",\"layer\":" + std::to_string(number_in_name(layer, kLastImportedLayer, "layer"));
  if (!run.empty()) text_ += ",\"run\":", append_json_value(run, text_);
}

void TableFigures::end_line() {
  Line& line = lines_.back();
  line.end = text_.size();
  const bool has_value = std::string_view(text_).substr(line.first).find('\n') != std::string_view::npos;
  if (has_value || !has_runs_) return;  // the run has no value at this step, and other runs may have one
  text_.resize(line.first);
  lines_.pop_back();
}

void TableFigures::add(std::span<const std::string_view> cells, std::int64_t line) {
  const std::string_view step_cell = cell_at(cells, form_.step);
  if (step_cell.empty()) throw Unreadable("no step");
  if (cells.size() > form_.names.size()) throw Unreadable("has more cells than the header has columns");
  const std::int64_t step = whole_number(step_cell, kMaxFigureStep, "step");
  const std::string_view layer = cell_at(cells, form_.layer), name = cell_at(cells, form_.name);
  if (!layer.empty()) number_in_name(layer, kLastImportedLayer, "layer");
  std::string_view run = form_.run_is_name ? cell_at(cells, form_.run) : std::string_view();
  const std::size_t series = std::hash<std::string_view>()(run) * 31 + std::hash<std::string_view>()(name);
  const auto of_layer = std::hash<std::string_view>()(layer) % (1u << 12);
  if (has_runs_) run = form_.figures.front().run;
  begin_line(step, line, layer, run);
  add_loads(cells);
  if (form_.name >= 0 && !name.empty() && !is_no_value(cell_at(cells, form_.value))) {
    text_ += ',' + json_string(name) + ':';
    append_json_value(cell_at(cells, form_.value), text_);
  }
  for (std::size_t i = 0; i < form_.figures.size(); ++i) {
    const FigureColumn& figure = form_.figures[i];
    if (has_runs_ && figure.run != run) end_line(), begin_line(step, line, layer, run = figure.run);
    if (figure.column != form_.run || !form_.run_is_name) add_value(i, cell_at(cells, figure.column));
  }
  end_line();
  order_.add(step, series % 0xFFFFFFFBu << 12 ^ of_layer, 0, line);
  if (text_.size() + lines_.size() * sizeof(Line) + order_.bytes() > kMaxTableBytes)
    throw std::runtime_error(path_ + ": line " + std::to_string(line) + ": the rows so far take more than " +
                             std::to_string(kMaxTableBytes >> 30) +
                             " GiB: write them as JSON lines, which are read step by step, or fewer steps");
}

// Returns the line as a JSON object, with the names of its values.
std::string_view TableFigures::json_of(const Line& line) {
  std::string_view unread = std::string_view(text_).substr(line.first, line.end - line.first);
  json_.assign(take_until(unread, '\n'));
  while (!unread.empty()) {
    std::string_view value = take_until(unread, '\n');
    std::size_t figure = 0;
    const std::string_view number = take_until(value, ' ');
    std::from_chars(number.data(), number.data() + number.size(), figure);
    json_ += names_[figure];
    json_ += value;
  }
  return json_ += '}';
}

// Reverses the lines if the newest is first. Sorts them by step if each layer or figure has its own row, because such
// rows may be sorted by layer or name. Otherwise a late row, such as one of a validation, stays where it is.
void TableFigures::sort() {
  const TableOrder::Kind kind = order_.kind();
  if (kind == TableOrder::Kind::lost) throw std::runtime_error(path_ + ": " + order_.going_back());
  if (kind == TableOrder::Kind::newest_first) std::ranges::reverse(lines_);
  const bool is_row_a_part = form_.layer >= 0 || form_.name >= 0;
  if (is_row_a_part && !order_.goes_back()) std::ranges::stable_sort(lines_, {}, &Line::step);
}

void TableFigures::build(const ImportOptions& options, Imported& imported) {
  sort();
  LogReader reader(path_, options);
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    reader.read_line(json_of(lines_[i]));
    if (options.progress && i % kLinesBetweenReports == 0 && !options.progress(0.5 + 0.5 * i / lines_.size())) return;
  }
  Imported figures = reader.finish();
  // The reader numbers the lines that it was given, not those of the table.
  for (const BadLine& bad : figures.bad.first()) imported.bad.add(lines_[bad.number - 1].number, bad.why, bad.in_part);
  for (std::int64_t more = std::ssize(figures.bad.first()); more < figures.bad.count(); ++more) imported.bad.add(0, {});
  if (!reader.run_names().empty()) check_choice(path_, reader.run_names(), options);
  imported.runs = std::move(figures.runs);
  imported.remarks = std::move(figures.remarks);
  imported.account = std::move(figures.account);
  const bool is_named_by_file = form_.value >= 0 && form_.name < 0;
  if (const std::string refusal = reader.refusal(); !options.growing && !refusal.empty())
    throw RefusedLog(
        path_,
        refusal + (is_named_by_file ? ". The name of the file must name the column Value, as TensorBoard does: "
                                      "run-RUN-tag-train_loss.csv"
                                    : ""),
        std::move(imported.account));
  if (!imported.runs.empty()) return;
  throw RefusedLog(path_, "none of its columns is a known figure" + imported.bad.first_reason(),
                   std::move(imported.account));
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

  // Throws std::runtime_error if the row belongs to another run than the rows before. Not needed if each line of a
  // table of figures gives the name of its run to LogReader, which separates the runs.
  void check_run(const CsvRow& row) {
    const std::size_t column = form_.run;
    if (form_.run < 0 || column >= row.cells.size()) return;
    if (form_.kind == TableKind::figures && form_.run_is_name) return;
    if (!run_) run_ = row.cells[column];
    if (*run_ == row.cells[column]) return;
    throw std::runtime_error(path_ + ": line " + std::to_string(row.line) + ": the column " + form_.names[column] +
                             " names another run than the rows before: write each run to its own table");
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
  if (const std::string problem = encoding_problem(piece); !problem.empty())
    throw std::runtime_error(path + ": " + problem);
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
  if (!form)
    throw std::runtime_error(path +
                             ": is not a table of a run: expected the columns step, layer, expert and count; layer and "
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
    if (auto history = loads->build(options, imported)) imported.runs = {std::move(history)};
  } else {
    std::get<TableFigures>(reader.rows()).build(options, imported);
  }
  if (imported.runs.empty()) return {};
  if (options.progress) options.progress(1);
  return imported;
}

}  // namespace moescope
