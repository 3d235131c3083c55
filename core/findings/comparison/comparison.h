// Comparison of runs: gaps (gap_track.h) and final figures. verdict.h decides whether a gap is more than chance;
// operand_sqnr.h measures the loss of precision by number formats.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/findings/comparison/verdict_words.h"
#include "core/numerics/statistics.h"
#include "core/recording/history/history.h"

namespace moescope {

inline constexpr double kGapEpsilon = 0.05;  // nats/token; default of `epsilon` below, which the user can change
// Returns the first step at which |loss_b - loss_a| > epsilon, or at which only one loss is NaN or infinite; nullopt if
// there is no such step.
std::optional<std::int64_t> first_divergence_step(const History& a, const History& b, double epsilon);

// Returns u_e of b minus u_e of a (u_e = n_e E / (K T)) for every expert of one layer at one step, [E]; empty if the
// layers have different numbers of experts.
std::vector<float> load_difference(const RouterFrame& a, const RouterFrame& b);

// The verdicts that a run had in the course of its training, so that a withdrawn verdict leaves a trace.
struct PastVerdict {
  StepRange steps;  // last steps of the comparisons with this verdict
  VerdictWord word = VerdictWord::too_early;
};

// Judges the steps up to the first kMinSteps steps, then up to steps that are 1/16 farther apart each time. The first
// step of another verdict is found by bisection. The result depends on the losses only: a recording has the verdicts
// that its training had.
class VerdictTrace {
 public:
  // Judges new steps. Starts again before the end of runs that were rewound.
  void update(const PairedTrack& run, std::span<const PairedTrack> twins, Judging judging);
  const std::vector<PastVerdict>& past() const { return past_; }

 private:
  std::vector<PastVerdict> past_;  // without gaps between their steps
};

// Returns "worse until step 212" for the newest verdict Worse, Better or Good enough up to the last judged step
// that differs from the verdict of `c`; empty: there is none.
std::string withdrawn_text(std::span<const PastVerdict> past, const Conclusion& c);

// A row of the table of runs. Means are taken over the finite values of `window`.
struct RunFigures {
  int run = 0;
  std::string name;
  std::int64_t steps = 0;         // number of steps up to window.last; number of lines of a log if they are far apart
  float final_loss = kNoValue;    // loss at window.last
  float mean_loss = kNoValue;     // ce_loss
  float max_vio = kNoValue;       // MaxVio of the batch, mean over layers
  float tokens_per_s = kNoValue;  // divided by the time of this run only
  float flip_rate = kNoValue;     // against run A
  float rounding_flip_rate = kNoValue;  // against FP32 on the same weights
  float gradient_cosine = kNoValue;
};
RunFigures run_figures(const History& history, StepRange window);
// Returns the mean of the finite values of all steps, with its interval, if each step is another text; nullopt if there
// is none.
std::optional<FigureOfPieces> figure_of_texts(const History& history, Metric metric, int layer);
// Returns the range of the last `n` steps up to `last_step` that all runs have (shorter if they have fewer).
StepRange last_common_steps(std::span<const HistoryPtr> histories, std::int64_t n,
                            std::int64_t last_step = kNoLastStep);

// Errors by a run's number formats at a step, or at the newest earlier step with a measurement; kNoValue: not measured.
struct FormatCosts {
  float gradient_error = kNoValue;  // |g - r| / |r| of all tensors, r the gradient of an FP32 pass
  float flips = kNoValue;           // share of tokens whose experts change by rounding, mean over layers
  float flushed = kNoValue;         // largest underflow of an operand
  OperandPlace flushed_operand;     // operand of `flushed`
};
FormatCosts format_costs(const History& history, std::int64_t step);

// Comparison of a run's choice of experts with run A's at a step, or at the newest earlier step with a comparison.
struct RoutingOverlap {
  std::int64_t step = -1;          // -1: not compared
  float overlap = kNoValue;        // share of experts in common, mean over tokens and layers; kNoValue: not recorded
  int first_differing_layer = -1;  // first layer in which a token has other experts; -1: none
  bool replayed = false;           // the run uses run A's choice (router.replay)
};
RoutingOverlap routing_overlap(const History& run, std::int64_t step);
// Returns "97.2 % of experts in common with run A at step 100, different experts from layer 1 on"; empty if not
// compared.
std::string to_text(const RoutingOverlap& routing);

// Gaps and conclusions of runs in training; an update computes only the new steps.
class RunGaps {
 public:
  explicit RunGaps(Metric loss = Metric::ce_loss) : loss_(loss) {}
  // Compares `other_runs` with `a`, or with their own baselines, and judges them by `twins`, which are noise twins of
  // `a`. Keeps the results of pairs that were set before.
  void set(const HistoryPtr& a, const std::vector<PairedRun>& other_runs, const std::vector<PairedRun>& twins,
           const Judging& judging = {});
  void update();                                     // adds the new steps
  int runs() const { return to_int(runs_.size()); }  // number of runs beside run A

  // Results of the run at `place`, counted from 1.
  const GapTrack& track(int place) const { return runs_[place - 1].track; }
  const Conclusion& conclusion(int place) const { return conclusions_[place - 1]; }
  // The conclusion of the newest steps, whatever the last judged step.
  Conclusion newest(int place) const;
  // Verdicts that the run had in the course of the training, judged when they are asked for.
  const std::vector<PastVerdict>& past(int place);

 private:
  Metric loss_;
  std::vector<PairedTrack> runs_, twins_;
  Judging judging_;
  std::vector<Conclusion> conclusions_;
  std::vector<VerdictTrace> traces_;
};

// Returns how many runs of the same kind (candidates or noise twins) precede `place`. Places beyond `twins` are
// candidates.
inline int number_of_its_kind(const std::vector<bool>& twins, std::size_t place) {
  const auto is_twin = [&](std::size_t run) { return run < twins.size() && twins[run]; };
  int number = 0;
  for (std::size_t run = 0; run < place; ++run) number += is_twin(run) == is_twin(place);
  return number;
}

inline std::string run_letter(const std::vector<bool>& twins, std::size_t place) {
  const int number = number_of_its_kind(twins, place);
  if (place >= twins.size() || !twins[place]) return std::string(1, static_cast<char>('A' + number));
  return number == 0 ? "N" : fmt::format("N{}", number + 1);
}

}  // namespace moescope
