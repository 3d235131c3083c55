// Watches one MoE layer, window by window, for faults of a training program that no setting shows: a bias that never
// changes, an auxiliary loss that does not follow the load, mixing weights that are constant, experts that get tokens
// but never change, padding that is counted as text, and tokens that are counted twice.
//
// Legend: E experts, K top_k. A fault is not judged if the log lacks the values that show it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/findings/findings.h"
#include "core/findings/recent_load.h"

namespace moescope {

inline constexpr int kFaultWindows = 3;  // duration of each fault: 150 steps
// MaxVio of the window above which a bias or an auxiliary loss should change.
inline constexpr double kFaultUneven = 0.5;
// An auxiliary loss is flat if it changes by at most kFlatAuxiliary of its value from window to window. At a MaxVio of
// 0.5 and more, correct losses vary by 1 % and more from batch to batch. If counts and scores of the layer are known,
// they give the loss of the batch; losses of sequences and microbatches are not smaller. The loss is too small if its
// excess over the value at an even load is below kTooSmall of the expected excess, which must be at least
// kExpectedExcess of that value.
inline constexpr double kFlatAuxiliary = 2e-3, kTooSmall = 0.5, kExpectedExcess = 0.02;
// A window with an even load shows nothing: it does not count, but the finding is over after more than kEvenWindows of
// them in a row. Wrong runs of nano with an auxiliary loss of other scores had up to 4.
inline constexpr int kEvenWindows = 6;
// A shared excess: the loads of the K fullest experts differ by less than kSameExcess, and the K-th exceeds the next
// one by more than kClearOfNext, both as shares of the excess. The excess: their mean load minus that of the others.
inline constexpr double kSameExcess = 0.15, kClearOfNext = 0.7;
inline constexpr double kMinExcess = 0.3, kMinOther = 0.3;  // times the fair share
// Mixing weights are constant if every expert's share of them differs from its share of the slots by at most this.
// Weights that differ by 1 % change these shares by 1e-4 and more; shares are logged with 7 digits.
inline constexpr double kSameShare = 1e-6;
// Tokens are counted twice if the counts differ from twice tokens times top_k by less than this share. Other factors
// are not judged, because loads that were logged for several steps or by several ranks have them.
inline constexpr double kTwice = 0.01;

// Values of a layer at the end of a window; members that are not known are empty.
struct FaultReading {
  std::int64_t step = 0;
  const RouterFrame* router = nullptr;
  const RecentLoad* load = nullptr;              // must have read the window
  std::optional<double> bias_rate;               // of the sign rule; nullopt: another rule, or not known
  bool bias_is_held = false;                     // Interventions::holds_bias()
  std::optional<double> aux_coeff;               // coefficient of an auxiliary loss that is on
  bool aux_is_ours = false;                      // this program computes the loss: it is aux_coeff at an even load
  float aux_of_all = kNoValue;                   // auxiliary loss, sum over layers
  double slots = 0;                              // tokens of a step times top_k; 0: not known
  const SpecialisationFrame* experts = nullptr;  // newest frame since the last reading
  double lr = 0;                                 // learning rate in the step of `experts`; NaN: not known
};

// Values of a layer's faults, from which describe() writes the findings.
struct LayerFaults {
  int n_experts = 0;
  double max_vio = 0;                    // of the newest window
  std::string window_text = "50 steps";  // loads of a window

  ConsecutiveWindows stale_bias;
  double bias_rate = 0;

  ConsecutiveWindows flat_auxiliary;  // without windows with an even load
  int even_windows = 0;               // the newest windows in a row that do not show whether the loss follows the load
  std::optional<double> aux;          // auxiliary loss of the newest window
  double aux_expected = 0;            // auxiliary loss from counts and scores; NaN: not known

  ConsecutiveWindows constant_weights;

  ConsecutiveWindows counted_twice;
  double counted = 0, slots = 0;  // sum of the counts of a step, and the correct sum

  ConsecutiveWindows shared_excess;
  std::vector<int> excess_experts;  // the K experts with the shared excess
  double excess = 0;                // in fair shares

  bool have_gradients = false;  // some of the unchanged experts have a gradient
};
// Writes title, observation and meaning of a finding of this kind, whose experts are set.
void describe(const LayerFaults& faults, Finding& finding);

class FaultWatch {
 public:
  FaultWatch(int layer, const RunInfo& info);

  void window(const FaultReading& reading);
  void pass(std::int64_t step) { last_step_ = step; }  // last step read
  void findings(std::vector<Finding>& out) const;

 private:
  void judge_bias(const FaultReading& reading, double max_vio);
  void judge_auxiliary(const FaultReading& reading, double max_vio);
  void judge_weights(const FaultReading& reading);
  void judge_excess(const FaultReading& reading);
  void judge_changes(const FaultReading& reading);
  void judge_counts(const FaultReading& reading);

  int layer_, run_, top_k_;
  bool trained_here_;  // by this program, whose settings show whether the gates get a gradient
  std::int64_t last_step_ = -1;
  LayerFaults faults_;
  std::vector<float> bias_;             // [E] expert_bias of the previous window
  std::vector<int> unchanged_windows_;  // [E] consecutive windows without a change of the weights
  std::int64_t unchanged_since_ = -1;
};

}  // namespace moescope
