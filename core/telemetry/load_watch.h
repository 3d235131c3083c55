// Watches the load of one MoE layer, block by block: dead, starved and hot experts, collapse, oscillation, and a bias
// that the gate contradicts.
//
// Legend: E experts, K top_k, u_e = n_e E / (K T) utilisation. "Use" is (exp(H) - K) / (E - K), H the entropy of the
// load: 1 where all experts work alike, 0 where the same K take every token.
// Thresholds were set on four logs of a GPU training (64 experts, top 6: balanced, shifted, unbalanced, MXFP8) and on
// runs of the presets.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/telemetry/findings.h"

namespace moescope {

// Means are over so many blocks, 50 steps: long against the spread of batches, short against training.
inline constexpr int kMeanBlocks = 5;
// Not one token in so many batches that were recorded: what happened between them is not known. Where nothing balances,
// experts were seen to fall silent for up to 130 and come back, so 200 is silence for good.
inline constexpr std::int64_t kDeadBatches = 200;
// A mean share under 1 % of the fair one: such an expert gets a hundredth of the gradient. It is over above twice that.
inline constexpr double kStarvedShare = 0.01, kFedShare = 0.02;
// With a bias rate of 0.001 the bias lifts the unlucky ones back within 200 steps (the longest seen), in the early
// transient as well as later; who starves for longer is not being helped.
inline constexpr std::int64_t kStarvedSteps = 300;
// Four times its share, or 70 % of all tokens where that is less: its rank makes the others wait. In a balanced run's
// early transient one expert was seen above it for 270 steps, so it counts only when it lasts.
inline constexpr double kHotShare = 4, kHotTokens = 0.7, kCooled = 0.9;  // of these
inline constexpr std::int64_t kHotSteps = 400;
// Use: collapsed layers were seen at 0.07 to 0.15, an uneven one that settled by itself at 0.36, the lowest of any
// balanced run's early transient was 0.58.
inline constexpr double kCollapsedUse = 0.25, kCollapseOverUse = 0.35;
// On its way: under 0.65 and a fifth lower than 100 steps before, falling in both halves of these. The first 150 steps
// do not count: every router sorts itself out in them.
inline constexpr double kCollapsingUse = 0.65, kCollapsingFall = 0.8;
inline constexpr int kCollapsingBlocks = 10, kEarlyBlocks = 15, kFallingBlocks = 3;
// Oscillation: deviations of the load from its mean of 50 steps are anticorrelated at some lag up to 8 steps, while the
// batch MaxVio is high and twice that of the window, and a step of the bias is no longer small against the score
// margin. All three, because batches whose kinds of text take turns give -0.4, too: there the step was 0.02 of the
// margin, in runs that ring (rate 0.03 and 0.1) 0.3 to 2.7.
inline constexpr int kLags = 8;
inline constexpr double kSwing = -0.25;
inline constexpr double kSwingMaxVio = 0.5;
inline constexpr double kLargeStep = 0.25;
// Gate weight per token against the layer's mean. Even gates weigh every expert at 1.
inline constexpr double kFaintGate = 0.2, kStrongGate = 3;

class LoadWatch {
 public:
  LoadWatch(int layer, const RunInfo& info);

  // Steps [first, first + kBlock): utilisation of each step [kBlock, E], NaN where there is none; the metrics' values
  // of the same steps.
  void block(std::int64_t first, std::span<const float> utilisation, std::span<const float> max_vio,
             std::span<const float> entropy_norm);
  // The router of this layer at `step`, the first of the 50 that the next block() will complete, and a step later
  // (nullptr: it has no bias then).
  void router(std::int64_t step, const RouterFrame& router, const RouterFrame* next);

  void findings(std::vector<Finding>& out) const;
  int layer() const { return layer_; }

 private:
  // Of one expert: since when something has been going on, -1: it is not.
  struct Expert {
    std::int64_t silent_since = -1;
    std::int64_t silent_batches = 0, longest_silence = 0;
    std::int64_t starved_since = -1, hot_since = -1;
  };
  struct Episode {
    FindingKind kind;
    std::vector<int> experts;
    StepRange steps;
    double value = 0;  // how bad
  };

  void count_silence(std::int64_t first, std::span<const float> utilisation);
  void add_to_mean(std::span<const float> utilisation);
  void judge_experts();
  void judge_use(double use);
  void judge_swing();
  double mean_use(int blocks_ago) const;
  bool completes_window() const { return blocks_ % kMeanBlocks == 0; }
  double swing(int& lag) const;
  void note_bias_step(const RouterFrame& now, const RouterFrame& next);
  bool layer_has_collapsed() const { return collapsed_since_ >= 0; }

  bool is_dead(const Expert& expert) const { return expert.silent_batches >= kDeadBatches; }
  std::string batches_text(std::int64_t n) const;
  Finding make(FindingKind kind, Severity severity, StepRange steps, bool ongoing) const;
  void add_collapse(std::vector<Finding>& out) const;
  void add_dead(std::vector<Finding>& out) const;
  void add_starved(std::vector<Finding>& out) const;
  void add_hot(std::vector<Finding>& out) const;
  void add_swing(std::vector<Finding>& out) const;
  void add_gate(std::vector<Finding>& out) const;
  void add_closed(std::vector<Finding>& out) const;

  int layer_, run_;
  int n_experts_, top_k_;
  bool no_load_ = true;     // until a block had some
  bool every_step_ = true;  // had its load recorded
  int blocks_ = 0;
  std::int64_t last_step_ = -1;   // read
  std::int64_t first_step_ = -1;  // of all
  std::vector<Expert> experts_;   // [E]
  std::vector<float> sums_;       // [kMeanBlocks, E] of each of the last blocks, a ring
  std::array<int, kMeanBlocks> rows_{};
  std::vector<float> mean_;     // [E] of the last 50 steps
  std::vector<float> window_;   // [50, E] the window being collected; NaN where there was none
  std::vector<float> use_;      // by block, NaN: none
  std::vector<float> max_vio_;  // by block, mean of the batches', NaN: none
  double mean_max_vio_ = 0;     // of 50 steps
  std::int64_t collapsing_since_ = -1, collapsed_since_ = -1;
  int falling_blocks_ = 0;
  double use_before_ = 1;  // when the fall began
  std::int64_t swing_since_ = -1;
  int swing_windows_ = 0, quiet_windows_ = 0;
  double swing_ = 0, swing_max_vio_ = 0, swing_window_vio_ = 0, swing_step_ = 0;
  int swing_lag_ = 0;
  double bias_step_ = 0;  // mean |change of the bias in a step| over the score margin; 0: not known
  struct Gate {
    int faint = 0, strong = 0;  // windows in a row
    std::int64_t since = -1;
    float weight = 1, bias = 0, share = 1;
  };
  std::vector<Gate> gates_;  // [E]
  std::vector<Episode> closed_;
};

}  // namespace moescope
