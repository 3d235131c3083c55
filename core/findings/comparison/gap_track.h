// The gap of two runs, step by step; an update computes only the new steps.
//
// Gaps are b - a of one metric at the steps that both runs have. Logs with other numbers of tokens in a step are paired
// by tokens: a step of the log with fewer steps, and the step of the other that ends nearest to the same number of
// tokens. Steps are then those of a. Beside a log that does not state its tokens, all runs are paired step by step. The
// smoothed gap is a bias-corrected exponential moving average over all these steps from the first on, so that it does
// not depend on the visible range.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/recording/history/history.h"
#include "core/recording/history/step_rows.h"

namespace moescope {

using HistoryPtr = std::shared_ptr<const History>;

// Steps of `b` that read as many tokens as one step of `a`. 1 if they are paired step by step: runs of one size of
// batch, runs that are not logs of other programs, and logs that do not state their tokens.
double token_ratio(const History& a, const History& b);
// True if runs that are shown together are paired by tokens: all state their tokens, and some have other batches.
bool are_paired_by_tokens(std::span<const HistoryPtr> runs);
// Step at which `b` would end nearest to the number of tokens after `step` of `a`.
std::int64_t step_by_tokens(const History& a, std::int64_t step, const History& b);
// Step of `b` that is paired with `step` of `a`; nullopt if it has none near it.
std::optional<std::int64_t> paired_step(const History& a, std::int64_t step, const History& b, bool by_tokens);

// In place of a last step: there is no limit.
inline constexpr std::int64_t kNoLastStep = INT64_MAX - 1;

// Smoothing over about 50 steps.
inline constexpr double kGapFactor = 0.98;

class GapTrack {
 public:
  GapTrack(HistoryPtr a, HistoryPtr b, Metric metric = Metric::ce_loss, bool by_tokens = true);

  // Adds new steps; starts again if one of the runs was rewound. Returns false if nothing is new.
  bool update();

  const HistoryPtr& a() const { return a_; }
  const HistoryPtr& b() const { return b_; }
  Metric metric() const { return metric_; }
  bool by_tokens() const { return by_tokens_; }
  // Range of the count() steps that both runs have. raw() and smooth() hold one value for each of them; old values of
  // long runs are reduced to means of 16, 256, ...
  StepRange steps() const { return steps_.empty() ? StepRange{} : StepRange{steps_.front(), steps_.back()}; }
  std::int64_t count() const { return steps_.size(); }
  // Number of these steps in `range`.
  std::int64_t count(StepRange range) const {
    return range.empty() ? 0 : static_cast<std::int64_t>(place(range.last + 1) - place(range.first));
  }
  // Index of the first step at or after `step`.
  std::size_t place(std::int64_t step) const { return steps_.row_of(step); }
  StepRange last_steps(std::int64_t n, std::int64_t last_step) const;  // range of the newest n steps up to `last_step`
  const Pyramid& raw() const { return raw_; }                          // gap; kNoValue unless both values are finite
  const Pyramid& smooth() const { return smooth_; }                    // smoothed gap; kNoValue before the first gap
  // Returns min, max, mean and count of the gaps in each bin. Bin b holds the steps [edges[b], edges[b + 1]).
  std::vector<PyramidBin> series(std::span<const std::int64_t> edges) const;
  // Returns the smoothed gap at the last step of each bin; kNoValue for a bin without gaps.
  std::vector<float> smoothed(std::span<const std::int64_t> edges) const;

  // True if every gap up to `last_step` is 0.
  bool identical(std::int64_t last_step) const { return measured_ && first_different_ > last_step; }
  std::optional<std::int64_t> lost() const { return lost_; }  // step from which on only one run is finite
  // Returns the first step with |gap| > epsilon, or at which only one run is NaN or infinite.
  std::optional<std::int64_t> first_beyond(double epsilon) const;

 private:
  class Average {
   public:
    void add(std::int64_t step, double value);
    float get() const;

   private:
    double sum_ = 0, weight_ = 0;
    std::int64_t last_step_ = 0;
  };
  struct StepPairs {
    std::vector<std::int64_t> a, b;  // rising
  };
  double ratio_of(const History& from, const History& to) const { return by_tokens_ ? token_ratio(from, to) : 1; }
  StepRange readable_steps() const;
  StepPairs pairs_in(StepRange steps) const;  // `steps`: of the run with the larger batches
  void add(std::int64_t step, float loss_a, float loss_b);

  HistoryPtr a_, b_;
  Metric metric_;
  bool by_tokens_;
  std::uint64_t read_sequence_ = 0, truncations_ = 0;  // summed over both runs
  StepRange read_;  // steps that update() has read, of the run with the larger batches
  StepRows steps_;  // steps that both runs have
  Pyramid raw_, smooth_;
  Average average_;
  bool measured_ = false;
  std::int64_t first_different_ = INT64_MAX;
  std::optional<std::int64_t> lost_, first_lost_;
};

}  // namespace moescope
