#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "app/cli/cli_reading.h"
#include "app/cli/command_line.h"
#include "core/files/text/json_text.h"
#include "core/files/text/words.h"
#include "core/findings/comparison/gap_track.h"
#include "core/findings/explain/explain.h"
#include "core/frame/metrics.h"
#include "core/logs/log_exports.h"
#include "core/logs/open_runs.h"

namespace moescope {
namespace {

constexpr int kFiguresSchema = 1;         // version of --json; rises when a key changes its meaning or is removed
constexpr std::int64_t kReadSteps = 256;  // steps read at a time, from the newest to the oldest

struct FiguresOptions {
  RoutedShape routed;
  std::string file, run;
  std::optional<std::int64_t> at;
  std::int64_t last = 1;  // number of steps whose mean is printed
  std::vector<std::string> figures;
  bool json = false;
};

// A figure's newest value at or before a step.
struct Scalar {
  const MetricInfo* info;
  int layer;          // kWholeRun: the value of the run, or the mean over layers
  std::int64_t step;  // -1: the value is a mean over several steps
  float value;
};

// Returns the newest value, or the mean of several steps.
std::optional<Scalar> value_in(const History& history, Metric metric, int layer, StepRange asked_steps) {
  const std::int64_t at = asked_steps.last;
  if (is_missing(history.value_at(metric, layer, at))) return std::nullopt;
  if (asked_steps.size() > 1) {
    const double mean = mean_of_finite(history.values_in(metric, layer, asked_steps));
    if (std::isnan(mean)) return std::nullopt;
    return Scalar{&metric_info(metric), layer, -1, static_cast<float>(mean)};
  }
  for (StepRange range = history.last_steps(kReadSteps, at); !range.empty();
       range = history.last_steps(kReadSteps, range.first - 1)) {
    const std::vector<std::int64_t> steps = history.steps_in(range);
    const std::vector<float> values = history.values_at(metric, layer, steps);
    for (std::size_t i = steps.size(); i-- > 0;)
      if (!is_missing(values[i])) return Scalar{&metric_info(metric), layer, steps[i], values[i]};
  }
  // History keeps old values only as means of several steps, which value_at() returns.
  return Scalar{&metric_info(metric), layer, -1, history.value_at(metric, layer, at)};
}

void check_keys(const std::vector<std::string>& keys) {
  for (const std::string& key : keys)
    if (!find_metric(key))
      throw std::runtime_error(fmt::format("--figure {}: there is no such figure; allowed: {}, {}", key,
                                           joined(kMetricCards, ", ", &MetricInfo::key),
                                           joined(kQuantMetrics, ", ", &MetricInfo::key)));
}

// `keys`: of the figures; empty: all.
std::vector<Scalar> scalars(const History& history, StepRange asked_steps, const std::vector<std::string>& keys) {
  std::vector<int> layers = {kWholeRun};
  for (int layer = 0; layer < history.info().n_layers; ++layer) layers.push_back(layer);
  std::vector<Scalar> found;
  for (int m = 0; m < kNumMetrics; ++m) {
    const auto metric = static_cast<Metric>(m);
    if (!keys.empty() && std::ranges::find(keys, metric_info(metric).key) == keys.end()) continue;
    for (const int layer : layers)
      if (const auto scalar = value_in(history, metric, layer, asked_steps)) found.push_back(*scalar);
  }
  return found;
}

void add_figures(Report& report, const History& history, const std::vector<Scalar>& scalars) {
  ValueTable figures({{.key = "key"}, {.key = "name"}, {.key = "unit"}, {.key = "provenance"}});
  std::vector<Report> members;
  for (auto scalar = scalars.begin(); scalar != scalars.end();) {
    const MetricInfo& info = *scalar->info;
    ValueTable values({{.key = "layer"}, {.key = "step"}, {.key = "value"}});
    for (; scalar != scalars.end() && scalar->info == &info; ++scalar)
      values.add(scalar->layer == kWholeRun ? std::nullopt : std::optional(scalar->layer),
                 scalar->step < 0 ? std::nullopt : std::optional(scalar->step), named_number(scalar->value));
    figures.add(info.key, info.name, info.unit, provenance_name(provenance_in(history.info(), info.provenance)));
    members.emplace_back().rows("values", values);
  }
  report.rows("figures", figures, members);
}

// Adds each array with its step, from the newest frame up to `at` that has the array. The format is that of JSON lines.
void add_arrays(Report& report, const History& history, std::int64_t at) {
  const auto add = [&](const std::shared_ptr<const TelemetryFrame>& frame, std::initializer_list<std::string> keys) {
    if (!frame) return;
    const nlohmann::json line = parse_json(to_json_line(*frame));
    for (const std::string& key : keys) {
      if (!line.contains(key)) continue;
      report.value({.key = key + ".step"}, frame->step);
      report.json(key + ".values", line[key]);
    }
  };
  add(history.frame_at(at), {"routers", "wire"});
  add(history.quant_frame_at(at), {"quants"});
  add(history.flip_frame_at(at), {"flips"});
  add(history.gradient_frame_at(at), {"gradients", "rounding_flips", "router_roundings"});
  add(history.specialisation_frame_at(at), {"specialisation"});
}

ValueTable table(const std::vector<Scalar>& scalars) {
  ValueTable figures({{"figure"}, {"of"}, {.name = "value", .digits = 6}, {"unit"}, {"at"}});
  for (const Scalar& scalar : scalars)
    figures.add(scalar.info->key, scalar.layer == kWholeRun ? "run" : fmt::format("layer {}", scalar.layer),
                scalar.value, scalar.info->unit,
                scalar.step < 0 ? "mean of several steps" : fmt::format("step {}", scalar.step));
  return figures;
}

void print_figures(FiguresOptions options) {
  check_keys(options.figures);
  options.file = input_path(options.file);
  const OpenedRuns opened = read_runs(options.file, options.run, options.routed);
  print_notes(opened);
  const HistoryPtr history = opened.histories.front();
  const StepRange steps = history->steps();
  if (steps.empty()) throw std::runtime_error(options.file + ": has no step yet");
  const std::int64_t at = options.at.value_or(steps.last);
  const StepRange asked_steps{at - options.last + 1, at};
  if (asked_steps.first < steps.first || at > steps.last)
    throw std::runtime_error(
        fmt::format("--at {} --last {}: the run has steps {} to {}", at, options.last, steps.first, steps.last));
  const std::vector<Scalar> found = scalars(*history, asked_steps, options.figures);
  Report report;
  const std::string from = options.last > 1 ? fmt::format("means of steps {} to", asked_steps.first) : "step";
  report.sentence(fmt::format("{}, {} {}", history->info().name, from, at));
  report.table("", table(found));
  report.value({.key = "moescope_figures"}, kFiguresSchema);
  report.value({.key = "run"}, history->info().name);
  report.value({.key = "step"}, at);
  report.json("steps", {steps.first, steps.last});
  add_figures(report, *history, found);
  if (options.json && options.figures.empty()) add_arrays(report, *history, at);
  print_report(report, options.json);
}

}  // namespace

void add_figures_command(CLI::App& app) {
  auto options = std::make_shared<FiguresOptions>();
  Command command(app, "figures", "Print the figures that the window shows at a step, for scripts");
  command.option("RUN", options->file, "Recording (.moescope) or training log; - is standard input").required();
  add_routed_options(command, options->routed);
  command.option("--at", options->at, "Step (default: the newest)").range(std::int64_t{0}, INT64_MAX);
  command.option("--last", options->last, "Print the mean of so many steps, up to that of --at")
      .range(std::int64_t{1}, INT64_MAX);
  command.option("--run", options->run, "Name of the run, if the file has several (default: the first)");
  command.option("--figure", options->figures, "Only this figure, by its key: max_vio, ce_loss, ...").repeatable();
  command.option("--json", options->json, "Print JSON, with the arrays by expert, rank and operand, too");
  command.runs([options] { print_figures(*options); });
}

}  // namespace moescope
