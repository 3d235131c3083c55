#include "core/logs/table/import_table.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <variant>

#include "core/io/csv_rows.h"
#include "core/io/input_file.h"
#include "core/io/text_encoding.h"
#include "core/io/unreadable.h"
#include "core/logs/table/table_figures.h"
#include "core/logs/table/table_form.h"
#include "core/logs/table/table_loads.h"
#include "core/logs/tag_map.h"

namespace moescope {

namespace {

constexpr std::size_t kTablePiece = std::size_t{256} << 10;

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
    if (form_.has_header && std::ranges::equal(row.cells, form_.names)) return;  // again, where files were joined
    if (row.too_long) return bad_.add(row.line, "too long");
    if (is_table_remark(row.cells.front())) return;
    check_run(row);
    try {
      std::visit([&](auto& rows) { rows.add(row.cells, row.line); }, rows_);
    } catch (const Unreadable& unreadable) {
      bad_.add(row.line, unreadable.what());
    }
  }

  // Figures have their run in each line (log_reader.h), if it is called so.
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

// Whether the last line, which has no end, may be the beginning of one that another program is writing.
bool may_go_on(const InputFile& file, std::uint64_t read, const ImportOptions& options) {
  return options.growing || file.size() != read;
}

// False: cancelled.
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
