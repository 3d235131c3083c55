// Watches one MoE layer, window by window, for faults of a training program that no setting shows: a bias that never
// moves, an auxiliary loss that says nothing, mixing weights that are constant, experts that get tokens and never
// change, padding that counts as text, and tokens that count twice.
//
// Legend: E experts, K top_k. What a fault needs to be seen may be missing from a log: then it is not judged.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/findings/findings.h"
#include "core/findings/recent_load.h"

namespace moescope {

inline constexpr int kFaultWindows = 3;  // that each must last: 150 steps
// A load that a bias or an auxiliary loss should have noticed: MaxVio of the window.
inline constexpr double kFaultUneven = 0.5;
// An auxiliary loss is flat within this share of its value. At MaxVio 0.5 and more, right ones vary by 1 % and more
// from batch to batch. Where counts and scores of the layer are known, so is the loss of the batch, of which those of
// sequences and microbatches are no less: what it has beyond its floor is too small below this share of it.
inline constexpr double kFlatAuxiliary = 2e-3, kTooSmall = 0.5, kExpectedExcess = 0.02;
// One excess: K experts are above all others by nearly the same, and clear of the next one. As shares of the distance
// between their mean and that of the others.
inline constexpr double kSameExcess = 0.15, kClearOfNext = 0.7;
inline constexpr double kLeastExcess = 0.3, kLeastOther = 0.3;  // times the fair share
// Mixing weights are constant if every expert's share of them is its share of the slots to this. Weights that differ by
// 1 % move these shares by 1e-4 and more; shares are logged with 7 digits.
inline constexpr double kSameShare = 1e-6;
// Counts are twice tokens times top_k to this. Only twice is judged: other factors are those of loads that were logged
// for several steps or by several ranks.
inline constexpr double kTwice = 0.01;

// A layer at the end of a window; what is not known is empty.
struct FaultReading {
  std::int64_t step = 0;
  const RouterFrame* router = nullptr;
  const RecentLoad* load = nullptr;              // has read the window
  std::optional<double> bias_rate;               // of the sign rule, which is on
  bool bias_is_held = false;                     // by a person, or no rule moves it in this layer
  std::optional<double> aux_coeff;               // of an auxiliary loss that is on
  bool aux_is_ours = false;                      // with its coefficient, so that aux_coeff is its floor
  float aux_of_all = kNoValue;                   // the sum over layers
  double slots = 0;                              // tokens of a step times top_k; 0: not known
  const SpecialisationFrame* experts = nullptr;  // the newest since the last reading
  double lr = 0;                                 // in the step of `experts`; NaN: not known
};

class FaultWatch {
 public:
  FaultWatch(int layer, const RunInfo& info);

  void window(const FaultReading& reading);
  void pass(std::int64_t step) { last_step_ = step; }  // has been read up to here
  void findings(std::vector<Finding>& out) const;

 private:
  void judge_bias(const FaultReading& reading, double max_vio);
  void judge_auxiliary(const FaultReading& reading, double max_vio);
  void judge_weights(const FaultReading& reading);
  void judge_excess(const FaultReading& reading);
  void judge_changes(const FaultReading& reading);
  void judge_counts(const FaultReading& reading);
  Finding make(FindingKind kind, Severity severity, std::int64_t since) const;
  void add_bias(std::vector<Finding>& out) const;
  void add_auxiliary(std::vector<Finding>& out) const;
  void add_constant(std::vector<Finding>& out) const;
  void add_excess(std::vector<Finding>& out) const;
  void add_unchanged(std::vector<Finding>& out) const;
  void add_counted_twice(std::vector<Finding>& out) const;

  int layer_, run_, top_k_;
  bool trained_here_;  // whether the gates get a gradient is known from the settings
  std::int64_t last_step_ = -1;
  double max_vio_ = 0;

  std::vector<float> bias_;  // [E] of the window before
  double bias_rate_ = 0;
  Lasting still_;

  std::optional<double> aux_;  // of the window before
  double aux_expected_ = 0;    // by counts and scores; NaN: not known
  Lasting flat_;

  Lasting constant_;  // mixing weights

  double counted_ = 0, slots_ = 0;  // sum of the counts of a step, and what it should be
  Lasting twice_;

  std::vector<int> excess_;  // the K experts
  double excess_size_ = 0;   // times the fair share
  Lasting shared_;

  std::vector<int> unchanged_windows_;  // [E] in a row
  std::int64_t unchanged_since_ = -1;
  bool have_gradients_ = false;  // the unchanged ones
};

}  // namespace moescope
