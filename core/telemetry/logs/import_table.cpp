#include "core/telemetry/logs/import_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "core/io/input_file.h"
#include "core/io/text_encoding.h"
#include "core/io/trimmed.h"

namespace moescope {

namespace {

enum TableColumn { kStep, kLayer, kExpert, kCount, kNumColumns };
constexpr std::array<const char*, kNumColumns> kNames = {"step", "layer", "expert", "count"};
constexpr std::int64_t kMaxSteps = 1'000'000'000'000'000;
constexpr std::int64_t kProgressLines = 65536;
constexpr std::size_t kLongestRow = 65536;

constexpr std::string_view kBlanks = " \t\r\"";  // around a cell

struct Row {
  std::array<std::int64_t, kNumColumns> value{};
};

template <class Take>
void for_fields(std::string_view line, Take take) {
  for (std::size_t field = 0;; ++field) {
    const std::size_t end = line.find(',');
    take(field, trimmed(line.substr(0, end), kBlanks));
    if (end == std::string_view::npos) return;
    line.remove_prefix(end + 1);
  }
}

// Which field is which column; -1: none.
struct Layout {
  std::array<int, kNumColumns> field{-1, -1, -1, -1};
  bool header = false;
  bool is_trace() const { return field[kStep] < 0 && field[kCount] < 0; }

  explicit Layout(std::string_view first_line) {
    int fields = 0;
    for_fields(first_line, [&](std::size_t i, std::string_view name) {
      ++fields;
      std::string lower(name);
      std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
      for (std::size_t column = 0; column < kNumColumns; ++column) {
        if (lower == kNames[column] || (column == kCount && (lower == "tokens" || lower == "tokens_per_expert")))
          field[column] = static_cast<int>(i);
      }
    });
    header = field[kLayer] >= 0 && field[kExpert] >= 0;
    if (header) return;
    if (fields == 2)
      field = {-1, 0, 1, -1};
    else
      field = {0, 1, 2, 3};
  }
};

// Empty: the row was read; else what is wrong with it.
std::string read_row(std::string_view line, const Layout& layout, Row& row) {
  constexpr std::array<std::int64_t, kNumColumns> kMax = {kMaxSteps, std::int64_t{kMaxImportedLayers} - 1,
                                                          std::int64_t{kMaxImportedExperts} - 1, 4294967295};
  int found = 0, wanted = 0;
  for (const int field : layout.field) wanted += field >= 0;
  std::string wrong;
  for_fields(line, [&](std::size_t i, std::string_view text) {
    for (std::size_t column = 0; column < kNumColumns; ++column) {
      if (layout.field[column] != static_cast<int>(i)) continue;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), row.value[column]);
      if (error != std::errc() || end != text.data() + text.size() || row.value[column] < 0 ||
          row.value[column] > kMax[column]) {
        if (wrong.empty())
          wrong = std::string(kNames[column]) + ": not a whole number from 0 to " + std::to_string(kMax[column]);
      }
      ++found;
    }
  });
  if (wrong.empty() && found < wanted) wrong = "has too few columns";
  return wrong;
}

// Reads the rows of a file in order, twice: once for the shape of the run, once for its frames.
class Table {
 public:
  Table(const std::string& path, const ImportOptions& options) : path_(path), options_(&options) {}
  // `take` gets each row that could be read; false: it was cancelled. Progress from `from` to 1/2 more.
  template <class Take>
  bool read(double from, BadLines* bad, Take take) {
    InputFile file(path_);
    const auto size = static_cast<double>(std::max<std::uint64_t>(1, file.size()));
    std::string line;
    double read = 0;
    for (lines_ = 0; file.read_line(line, kLongestRow);) {
      ++lines_;
      read += static_cast<double>(line.size() + 1);
      if (lines_ % kProgressLines == 0 && options_->progress && !options_->progress(from + 0.5 * read / size))
        return false;
      if (lines_ == 1) line = without_byte_order_mark(line);
      if (trimmed(line, kBlanks).empty()) continue;
      if (!layout_) {
        layout_ = std::make_unique<Layout>(line);
      }
      if (lines_ == 1 && layout_->header) continue;
      Row row;
      const std::string wrong = line.size() > kLongestRow ? "too long" : read_row(line, *layout_, row);
      if (layout_->field[kCount] < 0) row.value[kCount] = 1;
      if (!wrong.empty()) {
        if (bad) bad->add(lines_, wrong);
        continue;
      }
      take(row);
    }
    return true;
  }
  bool is_trace() const { return layout_ && layout_->is_trace(); }
  std::int64_t lines() const { return lines_; }

 private:
  std::string path_;
  const ImportOptions* options_;
  std::int64_t lines_ = 0;
  std::unique_ptr<Layout> layout_;
};

// Tells where a trace's batch ends, and gives its rows a step and a count of 1.
class TraceSteps {
 public:
  void number(Row& row) {
    if (row.value[kLayer] < last_layer_) ++step_;
    last_layer_ = row.value[kLayer];
    row.value[kStep] = step_;
    row.value[kCount] = 1;
  }

 private:
  std::int64_t step_ = 0, last_layer_ = 0;
};

// The run's shape: its layers, experts, and the rows of a layer in the smallest batch of a trace.
struct Shape {
  std::map<int, std::int64_t> rows_by_layer;  // of the step in work
  std::int64_t experts = 0, step = -1, smallest = INT64_MAX, slots = 0, steps = 0;

  void end_step() {
    for (auto& [layer, rows] : rows_by_layer) {
      if (rows > 0) smallest = std::min(smallest, rows);
      rows = 0;
    }
  }
  void add(const Row& row) {
    if (row.value[kStep] != step) {
      end_step();
      ++steps;
    }
    step = row.value[kStep];
    experts = std::max(experts, row.value[kExpert] + 1);
    ++rows_by_layer[static_cast<int>(row.value[kLayer])];
  }
};

}  // namespace

Imported import_table(const std::string& path, const ImportOptions& options) {
  Table table(path, options);
  Shape shape;
  TraceSteps trace;
  if (!table.read(0, nullptr, [&](Row& row) {
        if (table.is_trace()) trace.number(row);
        shape.add(row);
      }))
    return {};
  shape.end_step();
  Imported imported;
  if (shape.steps == 0) throw std::runtime_error(path + ": holds no row of layer, expert and count");
  const std::size_t loads = shape.rows_by_layer.size() * static_cast<std::size_t>(shape.experts);
  if (loads > kMaxImportedLoads)
    throw std::runtime_error(path + ": " + std::to_string(shape.rows_by_layer.size()) + " layers of " +
                             std::to_string(shape.experts) + " experts are more than can be shown");
  RunInfo info;
  info.run = options.run;
  info.name = std::filesystem::path(path).stem().string();
  info.source = path;
  for (const auto& [layer, rows] : shape.rows_by_layer) info.moe_layers.push_back(layer);
  info.n_layers = info.moe_layers.back() + 1;
  info.n_experts = static_cast<int>(shape.experts);
  if (table.is_trace()) info.top_k = static_cast<int>(std::min(shape.smallest, shape.experts));
  ImportedRun run(info, options);
  TelemetryFrame frame;
  bool begun = false;
  const auto finish = [&] {
    if (begun) run.add(std::move(frame));
    frame = {};
    frame.aux_loss = frame.z_loss = kNoValue;
    for (const int layer : info.moe_layers) {
      RouterFrame& router = frame.routers.emplace_back();
      router.layer = layer;
      router.tokens_per_expert.resize(static_cast<std::size_t>(info.n_experts));
    }
  };
  trace = {};
  const bool whole = table.read(0.5, &imported.bad, [&](Row& row) {
    if (table.is_trace()) trace.number(row);
    if (!begun || row.value[kStep] != frame.step) finish();
    begun = true;
    frame.step = row.value[kStep];
    const auto place = std::lower_bound(info.moe_layers.begin(), info.moe_layers.end(), row.value[kLayer]);
    RouterFrame& router = frame.routers[static_cast<std::size_t>(place - info.moe_layers.begin())];
    router.tokens_per_expert[static_cast<std::size_t>(row.value[kExpert])] +=
        static_cast<std::uint32_t>(row.value[kCount]);
  });
  if (!whole) return {};
  finish();
  if (options.progress) options.progress(1);
  imported.runs = {run.history()};
  imported.lines = table.lines();
  return imported;
}

}  // namespace moescope
