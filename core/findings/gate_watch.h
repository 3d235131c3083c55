// Watches the router of one MoE layer, window by window. Reports a bias that contradicts the gate, and scores without
// information because they are at the ends of their range or the same for every token.
//
// Legend: E experts, K top_k.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/findings/findings.h"
#include "core/findings/oscillation_watch.h"

namespace moescope {

// Mixing weight per slot of an expert relative to the layer's mean; 1 if the gate weighs all experts equally.
inline constexpr double kFaintGate = 0.2, kStrongGate = 3;
// Saturated: more than kScoresAtEnds of the sigmoid scores are in the highest half octave (0.71 and more) or under an
// eighth of 1 / E; for softmax scores, the mean entropy is below kSingleExpert nats, as if a single expert had 98 %.
// Presets had at most 25 % of their scores at the ends over 1,000 steps, and 74 to 97 % at 300 times the gates' rate.
inline constexpr double kScoresAtEnds = 0.7, kSingleExpert = 0.1;
// Scores are uninformative below this mutual information of token and score, in nats. Untrained gates have 3e-4 to
// 3e-3, trained gates 0.05 and more; at 1e-5 the logits of tokens differ by a hundredth.
inline constexpr double kUninformative = 1e-5;
inline constexpr int kGateWindows = 3;  // duration of each condition: 150 steps

// The router of a layer at a step, with related settings.
struct GateReading {
  std::int64_t step = 0;
  const RouterFrame* router = nullptr;
  const RouterFrame* next = nullptr;  // router with a bias a few steps later; nullptr: none
  std::int64_t steps_to_next = 1;
  std::optional<bool> softmax;      // true: softmax scores, false: sigmoid; nullopt: not known, or another function
  std::optional<double> bias_rate;  // change of the bias in each step; nullopt: not known
  bool sign_rule = true;            // the sign rule moves the bias; false: another rule
};

// Values of a gate's faults, from which describe() writes the findings.
struct GateFaults {
  struct Expert {
    int faint = 0, strong = 0;  // consecutive windows
    std::int64_t first_step = -1;
    float weight = 1, bias = 0, share = 1;
  };
  bool softmax = false;
  double margin = 0;
  ConsecutiveWindows saturated, uninformative;
  double at_ends = 0, information = 0;  // values by which saturation and information are judged
  std::vector<Expert> experts;          // [E]
};
// Writes title, observation and meaning of a finding of this kind, whose experts are set.
void describe(const GateFaults& faults, Finding& finding);

class GateWatch {
 public:
  GateWatch(int layer, const RunInfo& info);

  // Called once for each window.
  void router(const GateReading& reading);
  void pass(std::int64_t step) { last_step_ = step; }  // last step read
  void findings(std::vector<Finding>& out) const;

  const BiasStep& bias_step() const { return bias_step_; }
  // True if the scores have so little information that any bias outweighs them, so that the bias rate is not the cause.
  bool says_nothing() const { return faults_.saturated.windows > 0 || faults_.uninformative.windows > 0; }

 private:
  void note_bias_step(const GateReading& reading);
  void judge_scores(std::int64_t step, const RouterFrame& router, std::optional<bool> softmax);
  void judge_gates(std::int64_t step, const RouterFrame& router);

  int layer_, run_;
  std::int64_t last_step_ = -1;
  BiasStep bias_step_;
  GateFaults faults_;
};

}  // namespace moescope
