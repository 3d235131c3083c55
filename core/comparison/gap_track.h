// The gap of two runs, step by step; an update costs only the new steps.
//
// Gaps are b - a of one metric at equal steps: those that both runs have. Smoothed means a bias-corrected exponential
// moving average over every step from the first that both took, so that it does not depend on the visible range.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/history/history.h"
#include "core/history/step_rows.h"

namespace moescope {

using HistoryPtr = std::shared_ptr<const History>;

// A memory of 50 steps.
inline constexpr double kGapFactor = 0.98;

class GapTrack {
 public:
  GapTrack(HistoryPtr a, HistoryPtr b, Metric metric = Metric::ce_loss, int layer = kWholeRun);

  // Adds new steps; starts again if one of the runs was rewound. False: nothing is new.
  bool update();

  const HistoryPtr& a() const { return a_; }
  const HistoryPtr& b() const { return b_; }
  Metric metric() const { return metric_; }
  // From the first to the last step that both have; count() of them, which the series below have one after the other.
  // Old steps of long runs are kept as means of 16, 256, ...
  StepRange steps() const { return steps_.empty() ? StepRange{} : StepRange{steps_.front(), steps_.back()}; }
  std::int64_t count() const { return static_cast<std::int64_t>(steps_.size()); }
  std::int64_t count(StepRange range) const;                                  // of these steps
  std::size_t place(std::int64_t step) const { return steps_.row_of(step); }  // of the first at or after `step`
  StepRange last_steps(std::int64_t n, std::int64_t upto) const;  // that the newest n of them up to `upto` span
  const Pyramid& raw() const { return raw_; }                     // kNoValue where one of them has no finite value
  const Pyramid& smooth() const { return smooth_; }               // of the gap; kNoValue before the first

  bool identical() const { return measured_ && identical_; }  // every gap is 0
  std::optional<std::int64_t> lost() const { return lost_; }  // from here on only one of them is finite
  // The first step with |gap| > epsilon, or at which only one of them is NaN or infinite. A repeated call only reads
  // new steps.
  std::optional<std::int64_t> first_beyond(double epsilon) const;
  // The step from which the smoothed gap is larger than `band` up to the end; nothing: it ends inside.
  std::optional<std::int64_t> out_since(double band) const;

 private:
  class Average {
   public:
    void add(double value);
    float get() const;

   private:
    double sum_ = 0, weight_ = 0;
  };
  void forget();
  void add(std::int64_t step, float of_a, float of_b);

  HistoryPtr a_, b_;
  Metric metric_;
  int layer_;
  std::uint64_t seen_ = 0, truncations_ = 0;  // of both
  StepRange read_;                            // of both
  StepRows steps_;                            // that both have
  Pyramid raw_, smooth_;
  Average average_;
  bool measured_ = false, identical_ = true;
  std::optional<std::int64_t> lost_, first_lost_;
  mutable std::optional<std::int64_t> beyond_;
  mutable double epsilon_ = -1;     // that beyond_ is for
  mutable std::size_t looked_ = 0;  // steps that were searched for it
};

}  // namespace moescope
