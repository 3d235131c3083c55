// Comparison of runs: gaps and final figures. Whether a gap is more than chance: verdict.h. What their number formats
// lose: operand_sqnr.h.
//
// A gap is b - a at equal steps; steps that only one run took have none. Smoothed means an exponential moving average
// over every step from the first that both took (gap_track.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/comparison/verdict.h"
#include "core/history/history.h"

namespace moescope {

// Min, max, mean and count of the gaps in `bins` equal slices of `range`.
std::vector<PyramidBin> gap_series(const History& a, const History& b, Metric metric, int layer, StepRange range,
                                   int bins);
// The smoothed gap at the last step of each bin; kNoValue where the bin has none.
std::vector<float> smoothed_gap(const History& a, const History& b, Metric metric, int layer, StepRange range,
                                int bins);
// The same where bin b holds the steps [edges[b], edges[b + 1]).
std::vector<PyramidBin> gap_series(const History& a, const History& b, Metric metric, int layer,
                                   std::span<const std::int64_t> edges);
std::vector<float> smoothed_gap(const History& a, const History& b, Metric metric, int layer,
                                std::span<const std::int64_t> edges);

// The first step at which |loss_b - loss_a| > epsilon, or only one of the losses is NaN or infinite.
inline constexpr double kGapEpsilon = 0.05;  // unless the user chooses another
std::optional<std::int64_t> first_difference(const History& a, const History& b, double epsilon);

// u_e of b minus u_e of a for every expert of one layer at one step (u_e = n_e E / (K T)), [E]; empty when the layers
// have different numbers of experts.
std::vector<float> load_difference(const RouterFrame& a, const RouterFrame& b);

// A row of the table of runs. Means are over the finite values of `window`.
struct RunFigures {
  int run = 0;
  std::string name;
  std::int64_t steps = 0;               // taken up to `window`'s last one; where they are far apart, those logged
  float final_loss = kNoValue;          // at window.last
  float mean_loss = kNoValue;           // ce_loss
  float max_vio = kNoValue;             // of the batch, mean over layers
  float tokens_per_s = kNoValue;        // of this run alone
  float flip_rate = kNoValue;           // against run 0
  float rounding_flip_rate = kNoValue;  // against FP32 on the same weights
  float gradient_cosine = kNoValue;
};
RunFigures run_figures(const History& history, StepRange window);
// From the first to the last of the last `n` steps that all runs took (fewer when there are fewer).
StepRange last_common_steps(std::span<const HistoryPtr> histories, std::int64_t n);

// What a run's number formats do at a step, measured at it or at the newest step before; kNoValue: not measured.
struct FormatCosts {
  float gradient_error = kNoValue;  // |g - r| / |r| of all tensors, r the gradient of an FP32 pass
  float flips = kNoValue;           // share of tokens that rounding sends to other experts, mean over layers
  float flushed = kNoValue;         // largest underflow of an operand
  OperandPlace where;               // that operand
};
FormatCosts format_costs(const History& history, std::int64_t step);
// "gradient 24 % off, 9.1 % of tokens to other experts by rounding, 55 % of layer 2, experts w1, x forward flushed to
// zero"; empty: nothing is known, or nothing is lost.
std::string to_text(const FormatCosts& costs);

// How far a run's choice of experts is from run A's at a step, or the newest before at which they were compared.
struct RoutingOverlap {
  std::int64_t step = -1;      // -1: they were not compared
  float overlap = kNoValue;    // share of experts in common, mean over tokens and layers; kNoValue: not recorded
  int first_other_layer = -1;  // where some token has other experts; -1: nowhere
  bool replayed = false;       // the run takes run A's choice (router.replay)
};
RoutingOverlap routing_overlap(const History& run, std::int64_t step);
// "97.2 % of experts in common with run A at step 100, other ones from layer 1 on"; empty: nothing is known.
std::string to_text(const RoutingOverlap& routing);

// The same for runs in training, and the conclusions: an update costs only the new steps.
class RunGaps {
 public:
  explicit RunGaps(Metric loss = Metric::ce_loss) : loss_(loss) {}
  // The others are compared with `a` and judged by the twins. Results of pairs that stay are kept.
  void set(const HistoryPtr& a, const std::vector<PairedRun>& others, const std::vector<PairedRun>& twins,
           const Judging& judging = {});
  void update();                                               // adds the new steps
  int runs() const { return static_cast<int>(runs_.size()); }  // beside run A

  // For the run at `place`, counted from 1.
  std::vector<PyramidBin> series(int place, StepRange range, int bins) const;
  std::vector<float> smoothed(int place, StepRange range, int bins) const;
  std::optional<std::int64_t> out_since(int place, double band) const;  // GapTrack::out_since
  const Conclusion& conclusion(int place) const;

 private:
  const GapTrack& track(int place) const { return runs_[static_cast<std::size_t>(place - 1)].track; }

  Metric loss_;
  std::vector<PairedTrack> runs_, twins_;
  Judging judging_;
  std::vector<Conclusion> conclusions_;
};

}  // namespace moescope
