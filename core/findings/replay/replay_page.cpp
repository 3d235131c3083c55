#include "core/findings/replay/replay_page.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/files/assets.h"
#include "core/files/text/text_escape.h"
#include "core/files/unreadable.h"
#include "core/findings/comparison/operand_sqnr.h"
#include "core/findings/comparison/verdict_words.h"
#include "core/findings/findings.h"
#include "core/findings/replay/replay_arrays.h"
#include "core/frame/frame.h"
#include "core/frame/metrics.h"

namespace moescope {
namespace {

struct Cancelled {};

// Returns a function that reports the progress of a part, 0 to 1, as `begin` to `end` of the whole.
ReplayTick part_of(const ReplayTick& whole, double begin, double end) {
  return [=](double share) { whole(begin + share * (end - begin)); };
}

std::string scalar_of(const History& history, Metric metric, const std::vector<int>& layers, StepRange range,
                      int points) {
  std::vector<float> means;
  for (const int layer : layers)
    for (const PyramidBin& bin : history.series(metric, layer, range, points))
      means.push_back(bin.finite ? bin.mean() : kNoValue);
  return base64_of(means);
}

// Returns the number of points, so that load, three scalars of each layer and two of the run fit in `bytes`.
int points_of(const History& history, std::int64_t steps, std::size_t bytes, int max_points) {
  const RunInfo& info = history.info();
  const std::size_t layer = info.n_experts + 3 * sizeof(float);
  const std::size_t point = info.moe_layers.size() * layer + 2 * sizeof(float);
  const std::int64_t affordable = std::max<std::size_t>(1, bytes / point);
  return to_int(std::min({steps, std::int64_t{max_points}, affordable}));
}

ReplayJson findings_of(const HistoryPtr& history, StepRange range, const ReplayTick& tick) {
  constexpr int kParts = 50;
  FindingsScan scan(history);
  for (int part = 1; part <= kParts; ++part) {
    scan.advance(slice_begin(range, kParts, part) - 1);
    tick(static_cast<double>(part) / kParts);
  }
  ReplayJson list = ReplayJson::array();
  for (const Finding& finding : scan.findings())
    list.push_back({{"severity", severity_name(finding.severity)},
                    {"first", finding.steps.first},
                    {"last", finding.steps.last},
                    {"title", printable(finding.title)},
                    {"observation", printable(finding.observation)},
                    {"why", printable(finding.meaning)}});
  return list;
}

ReplayJson lacks_of(const ReplayJson& run, const History& history, StepRange range) {
  ReplayJson lacks = ReplayJson::array();
  if (history.series(Metric::ce_loss, kWholeRun, range, 1).front().finite == 0) lacks.push_back("loss");
  if (!history.frame_at(range.last)) lacks.push_back("expert load");
  if (run["matrices"].is_null()) lacks.push_back("copies between ranks (all-to-all)");
  if (run["operands"].is_null()) lacks.push_back("quantization statistics (errors, block scales)");
  return lacks;
}

ReplayJson run_of(const HistoryPtr& history, std::size_t bytes, int most_points, const ReplayTick& tick) {
  const RunInfo& info = history->info();
  const StepRange range = history->steps();  // the present steps, if the run is training
  if (range.empty()) refuse(info.name, "has no step to export");
  ReplayJson run = {{"name", printable(info.name)},
                    {"source", printable(info.source)},
                    {"from_log", run_origin(info) == RunOrigin::log},
                    {"experts", info.n_experts},
                    {"top_k", info.top_k},
                    {"window", info.window},
                    {"layers", info.moe_layers}};
  run["findings"] = findings_of(history, range, part_of(tick, 0, 0.4));
  // If a run has no matrices or operands, their bytes are left for loads and scalars.
  const std::size_t for_matrices = bytes / 7, for_operands = bytes / 8;
  run["matrices"] = matrices_of(*history, range, most_points, for_matrices, part_of(tick, 0.4, 0.55));
  run["operands"] = operands_of(*history, range, most_points, for_operands, part_of(tick, 0.55, 0.8));
  const std::size_t taken_bytes =
      (run["matrices"].is_null() ? 0 : for_matrices) + (run["operands"].is_null() ? 0 : for_operands);
  const std::int64_t steps = std::ssize(history->steps_in(range));
  const int points = points_of(*history, steps, bytes - taken_bytes, most_points);
  run["logged"] = steps;
  run["edges"] = slice_edges(range, points);
  run["loss"] = scalar_of(*history, Metric::ce_loss, {kWholeRun}, range, points);
  run["val_loss"] = scalar_of(*history, Metric::val_loss, {kWholeRun}, range, points);
  run["max_vio"] = scalar_of(*history, Metric::max_vio, info.moe_layers, range, points);
  run["max_vio_window"] = scalar_of(*history, Metric::max_vio_window, info.moe_layers, range, points);
  add_load(*history, range, points, part_of(tick, 0.8, 1), run);
  run["lacks"] = lacks_of(run, *history, range);
  return run;
}

// Returns the verdict on each run other than the first.
ReplayJson verdicts_of(std::span<const ReplayRun> runs) {
  std::vector<PairedRun> twins;
  for (const ReplayRun& run : runs)
    if (run.twin) twins.push_back({run.twin, run.same_start});
  const auto candidates = std::ranges::count_if(runs.subspan(1), [](const ReplayRun& run) { return !run.twin; });
  const Judging judging{kRelevantGap, to_int(candidates)};
  ReplayJson verdicts = ReplayJson::array();
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const PairedRun run{runs[i].history, runs[i].same_start};
    ReplayJson verdict = {{"run", i}, {"severity", severity_name(Severity::note)}};
    if (runs[i].twin) {
      verdict["sentence"] =
          printable(runs[i].history->info().name + " is a noise twin of " + runs.front().history->info().name) +
          ": they differ by chance alone.";
    } else {
      const Conclusion c = conclude(runs.front().history, run, twins, judging);
      verdict["sentence"] = printable(verdict_sentence(c)) + ".";
      if (verdict_word(c) == VerdictWord::worse) verdict["severity"] = severity_name(Severity::warning);
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

// Returns the classes of GEMMs that any run quantizes, in the order of their first operand.
ReplayJson gemm_classes(const ReplayJson& runs) {
  ReplayJson classes = ReplayJson::array();
  for (const ReplayJson& run : runs) {
    if (run["operands"].is_null()) continue;
    for (const ReplayJson& operand : run["operands"]["list"])
      if (std::ranges::find(classes, operand[1]) == classes.end()) classes.push_back(operand[1]);
  }
  return classes;
}

// Replaces "<", which would begin a tag or a comment in the page, by \u003c, which is equivalent in JSON; in JSON it
// occurs only in texts.
std::string json_for_page(const ReplayJson& json) {
  std::string safe;
  for (const char c : json.dump())
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  return safe;
}

std::string page_with(const ReplayJson& data) {
  std::string page(asset("replay/page.html"));
  page.append("<style>\n").append(page_look()).append(asset("replay/page.css")).append("</style>\n");
  page.append("<script type=\"application/json\" id=\"data\">").append(json_for_page(data)).append("</script>\n");
  page.append("<script>\n");
  for (const char* part : {"values", "plots", "figures", "controls"})
    page.append(asset("replay/page." + std::string(part) + ".js"));
  return page.append("</script>\n</body>\n</html>\n");
}

}  // namespace

std::string replay_page(std::span<const ReplayRun> runs, const ReplayLimits& limits,
                        const std::function<bool(double)>& progress) {
  const ReplayTick tick = [&](double share) {
    if (progress && !progress(share)) throw Cancelled();
  };
  try {
    ReplayJson written = ReplayJson::array();
    const double n = runs.size();
    for (std::size_t i = 0; i < runs.size(); ++i)
      written.push_back(
          run_of(runs[i].history, limits.bytes / runs.size(), limits.points, part_of(tick, i / n, (i + 1) / n)));
    const ReplayJson classes = gemm_classes(written);
    return page_with({{"setup", runs.empty() ? std::string() : runs.front().setup},
                      {"verdicts", verdicts_of(runs)},
                      {"gemms", classes},
                      {"sqnr_scale", {kStrongSqnrDb, kPaleSqnrDb}},
                      {"runs", std::move(written)}});
  } catch (const Cancelled&) {
    return {};
  }
}

}  // namespace moescope
