// The gap of two runs, step by step, kept so that news costs only the steps that are new.
//
// Gaps are b - a of one metric at equal steps. Smoothed means a bias-corrected exponential moving average over every
// step from the first that both took, so that it does not depend on what part of the axis is on the screen.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/telemetry/history/history.h"

namespace moescope {

using HistoryPtr = std::shared_ptr<const History>;

// A memory of 50 steps.
inline constexpr double kGapFactor = 0.98;

class GapTrack {
 public:
  GapTrack(HistoryPtr a, HistoryPtr b, Metric metric = Metric::ce_loss, int layer = kWholeRun);

  // Takes in what came since; from the beginning where one of the runs was taken back. False: nothing is new.
  bool update();

  const HistoryPtr& a() const { return a_; }
  const HistoryPtr& b() const { return b_; }
  // That both took; the series below begin with its first. Old steps of long runs are kept as means of 16, 256, ...
  StepRange steps() const { return {first_, first_ + static_cast<std::int64_t>(smooth_.size()) - 1}; }
  const Pyramid& raw() const { return raw_; }        // kNoValue where one has no finite value
  const Pyramid& smooth() const { return smooth_; }  // of the gap; kNoValue before the first
  const Pyramid& size() const { return size_; }      // of |gap|

  bool identical() const { return identical_; }               // every gap is 0
  std::optional<std::int64_t> lost() const { return lost_; }  // since when just one of them is no number, to the end
  // The first step with |gap| > epsilon, or at which just one of them is no number. Asked again, it looks at what is
  // new.
  std::optional<std::int64_t> first_beyond(double epsilon) const;

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
  std::int64_t first_ = 0;
  Pyramid raw_, smooth_, size_;
  Average average_, average_size_;
  bool identical_ = true;
  std::optional<std::int64_t> lost_, first_lost_;
  mutable std::optional<std::int64_t> beyond_;
  mutable double epsilon_ = -1;     // that beyond_ is for
  mutable std::size_t looked_ = 0;  // at so many steps for it
};

}  // namespace moescope
