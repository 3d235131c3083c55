#include "core/logs/table/table_figures.h"

#include <algorithm>
#include <stdexcept>

#include "core/io/json_text.h"
#include "core/io/unreadable.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/logs/table/import_table.h"
#include "core/logs/table/table_cells.h"

namespace moescope {

namespace {

constexpr std::int64_t kMaxFigureStep = 1'000'000'000'000'000;
constexpr std::size_t kLinesBetweenReports = 1024;

}  // namespace

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

// Where a layer has a row of its own the rows may be sorted by it; else a late row, as of a validation, is in its
// place.
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
  // The reader counts the lines that it was given.
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

}  // namespace moescope
