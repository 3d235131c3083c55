// Watches the router of one MoE layer, window by window, for a bias that contradicts the gate and for scores without
// information, because they are at the ends of their range or the same for every token.
//
// Legend: E experts, K top_k.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/findings/findings.h"
#include "core/findings/oscillation_watch.h"

namespace moescope {

// Gate weight per token against the layer's mean. Even gates weigh every expert at 1.
inline constexpr double kFaintGate = 0.2, kStrongGate = 3;
// Saturated: this share of sigmoid scores is in the highest half octave (0.71 and more) or under an eighth of 1 / E;
// for softmax scores the mean entropy is that of a single expert with 98 %. Presets: 25 % at most over 1,000 steps;
// with 300 times the gates' learning rate 74 to 97 %.
inline constexpr double kScoresAtEnds = 0.7, kSingleExpert = 0.1;
// Uninformative scores: the mutual information of token and score, nats. Untrained gates have 3e-4 to 3e-3, trained
// ones 0.05 and more; at 1e-5 the logits differ between tokens by a hundredth.
inline constexpr double kUninformative = 1e-5;
inline constexpr int kGateWindows = 3;  // that each of these must last: 150 steps

// The router of a layer at a step, and what is known beside it.
struct GateReading {
  std::int64_t step = 0;
  const RouterFrame* router = nullptr;
  const RouterFrame* next = nullptr;  // that has a bias, some steps later; nullptr: none
  std::int64_t steps_to_next = 1;
  std::optional<bool> softmax;      // scores are by softmax, or else by sigmoid; nullopt: not known, or neither
  std::optional<double> bias_rate;  // by which the bias moves in each step; nullopt: not known
  bool sign_rule = true;            // moves it; false: another rule
};

class GateWatch {
 public:
  GateWatch(int layer, const RunInfo& info);

  // Once for each window.
  void router(const GateReading& reading);
  void pass(std::int64_t step) { last_step_ = step; }  // has been read up to here
  void findings(std::vector<Finding>& out) const;

  const BiasStep& bias_step() const { return bias_step_; }
  // The scores carry so little information that any bias outweighs them: its rate is not the cause.
  bool says_nothing() const { return saturated_.windows > 0 || uninformative_.windows > 0; }

 private:
  struct Gate {
    int faint = 0, strong = 0;  // windows in a row
    std::int64_t since = -1;
    float weight = 1, bias = 0, share = 1;
  };
  struct Lasting {
    int windows = 0;  // in a row
    std::int64_t since = -1;
    double value = 0;
    void follow(std::int64_t step, bool holds, double now);
  };
  void note_bias_step(const GateReading& reading);
  void judge_scores(std::int64_t step, const RouterFrame& router, std::optional<bool> softmax);
  void judge_gates(std::int64_t step, const RouterFrame& router);
  Finding make(FindingKind kind, std::int64_t since) const;
  void add_saturated(std::vector<Finding>& out) const;
  void add_uninformative(std::vector<Finding>& out) const;
  void add_gates(std::vector<Finding>& out, bool strong) const;

  int layer_, run_, n_experts_;
  std::int64_t last_step_ = -1;
  BiasStep bias_step_;
  double margin_ = 0;
  bool softmax_ = false;
  Lasting saturated_, uninformative_;
  std::vector<Gate> gates_;  // [E]
};

}  // namespace moescope
