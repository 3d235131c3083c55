// Judges whether a training is as good as earlier good trainings: which figures left the band that chance explains,
// where and when, and in which settings the trainings differ.
// docs/regression-gate.md, "The noise band", has the formulas.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/findings/comparison/gap_track.h"
#include "core/frame/metrics.h"
#include "core/numerics/gemm_operand.h"
#include "core/numerics/names.h"

namespace moescope {

// regressed: a figure left the band to its worse side. differs: only figures left of which neither side is worse, such
// as the score margin, and figures to their better side.
enum class GateVerdict : std::uint8_t { same, regressed, differs, better, too_early };
inline constexpr auto gate_verdict_name = names_of<GateVerdict>("same", "regressed", "differs", "better", "too early");

// Why there is no verdict: too_early.
enum class GateProblem : std::uint8_t {
  none,
  no_common_steps,
  few_steps,          // fewer than kMinGateSteps in common, or fewer blocks than kMinGateBlocks have a value
  no_common_figures,  // no figure is in all runs
  good_run_not_finite
};

inline constexpr std::int64_t kMinGateSteps = 40;
inline constexpr double kGateError = 0.05;  // family-wise

// A figure at its place: of the whole run, of a layer or of an operand.
struct GateFigure {
  const MetricInfo* info = nullptr;
  int layer = kWholeRun;  // of an operand: its layer
  std::optional<OperandPlace> operand{};
  std::optional<Worst> worst{};  // nullopt: neither side is better
};

// A judged figure over the blocks, [blocks]; kNoValue where a run has no value.
struct GateSeries {
  GateFigure figure;
  std::vector<float> value;       // of the judged run
  std::vector<float> good;        // mean of the good runs
  std::vector<float> half_width;  // of the band around it: limit times the standard error of the difference
  std::vector<float> z;           // +-infinity: outside a band without width
  float limit = kNoValue;         // of |z|
};

// A figure that left the band: one for each figure. Of a figure that left on both sides, the times on its worse side.
struct GateExit {
  std::size_t series = 0;          // index in GateReport::series
  std::vector<StepRange> times{};  // steps of the judged run in which it was outside, at least one
  bool is_over = false;            // it came back
  // Step from which on the figure was on this side, at least a quarter of the way to the limit, before it left the
  // band.
  std::int64_t apart_since = 0;
  bool is_worse = true;  // to its worse side, or neither side is better
  // First step at which the judged run's value is NaN or infinite, and those of the good runs are finite.
  std::optional<std::int64_t> not_finite_step{};
  float value = kNoValue, good = kNoValue, half_width = kNoValue;  // in the last block outside
  float z = kNoValue;                                              // the farthest
  // Of a figure of the load: the expert whose load is farthest from its fair share the last time, and the load as a
  // multiple of it; -1: not known.
  int expert = -1;
  float expert_load = kNoValue;

  std::int64_t first_step() const { return times.front().first; }
  std::int64_t last_step() const { return times.back().last; }
};

// A setting in which the judged run differs from at least one good run.
struct GateSetting {
  std::string name, value;        // "router.top_k", or the log's name; "not given" if the run does not state it
  std::vector<std::string> good;  // of each good run
  std::optional<std::int64_t> changed_at{};  // step of the live change that set it
  bool differs_among_good = false;           // so that it need not be the cause
};

struct GateReport {
  std::string name;                     // of the judged run
  std::vector<std::string> good_names;  // of the good runs
  // Good runs with all values of another one, by index. They do not count: a run that a program repeats to the bit, or
  // a copy, does not show how far equal runs lie apart.
  std::vector<std::size_t> repeated_runs;
  GateVerdict verdict = GateVerdict::too_early;
  GateProblem problem = GateProblem::none;
  std::size_t bad_good_run = 0;  // good_run_not_finite: its index
  // Step of the judged run from which on not all read the same text; the training loss is compared before it.
  std::int64_t other_text_from = INT64_MAX;
  bool by_tokens = false;  // the runs are paired by tokens, not by steps
  std::int64_t common_steps = 0;
  StepRange steps;                        // of the judged run
  std::vector<std::int64_t> block_steps;  // first step of each block in the judged run, and the step after the last
  std::vector<GateSeries> series;         // of every judged figure
  std::vector<GateExit> exits;            // by first step
  std::vector<GateSetting> settings;      // those that do not differ among the good runs first
  std::vector<std::string> not_in_all;  // figures and layers that not all runs have, such as "MaxVio (batch), layer 3"

  std::size_t good_runs() const { return good_names.size() - repeated_runs.size(); }
};

// Compares `run` with 1 or more good runs.
GateReport judge_gate(const HistoryPtr& run, std::span<const HistoryPtr> good);

// Returns the settings in which a run differs from good runs: at the end of the runs, of configs without [telemetry]
// and [parallel], of logs what they state.
std::vector<GateSetting> differing_settings(const History& run, std::span<const HistoryPtr> good);

bool is_one_sided(const GateSetting& setting);  // one of the runs does not state it

// The answer in words.
std::string gate_sentence(const GateReport& report);  // "First outside the band of the good run at step 1,240. ..."
std::string exit_text(const GateReport& report, const GateExit& exit);
// `good`: name of the good runs.
std::string setting_text(const GateSetting& setting, const std::string& good = "good runs");
std::string figure_text(const GateFigure& figure);  // "MaxVio (batch), layer 7"
// What the runs cannot tell, how they were paired and which error the limit allows.
std::vector<std::string> gate_notes(const GateReport& report);

}  // namespace moescope
