// Watches the load of one MoE layer, block by block: dead, starved and hot experts, lasting imbalance, collapse, and
// oscillation.
//
// Legend: E experts that can be chosen, K top_k, u_e = n_e E / (K T) utilisation. "Use" is (exp(H) - K) / (exp(H0) -
// K): H is the entropy of the load of 50 steps together, H0 its expectation by chance for as many tokens
// (router_stats.h): 1 where all experts have the same load, 0 where the same K get every token. For single batches it
// would report layers as collapsed whose batches are small or whose experts take turns. Nothing that chance explains is
// reported as silent, starved or uneven: kExpected tokens must be missing. Thresholds were set on four logs of a GPU
// training (64 experts, top 6: balanced, shifted, unbalanced, MXFP8) and on runs of the presets.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/telemetry/findings/findings.h"
#include "core/telemetry/frame/newest.h"

namespace moescope {

// Means are over this many blocks, 50 steps: long compared with the spread of batches, short compared with training.
inline constexpr int kMeanBlocks = 5;
// No token in this many recorded batches. Without balancing, experts were seen without tokens for up to 130 batches and
// came back, so 200 is taken as final.
inline constexpr std::int64_t kDeadBatches = 200;
// And an expert must have missed this many tokens of an even share meanwhile: the probability that none comes by chance
// is exp(-50).
inline constexpr double kExpected = 50;
// Starved: a mean share under 1 % of the fair one, until it exceeds twice that.
inline constexpr double kStarvedShare = 0.01, kFedShare = 0.02;
// With a bias rate of 0.001 the bias brings such experts back within 200 steps (the longest seen), in the early
// transient as well as later.
inline constexpr std::int64_t kStarvedSteps = 300;
// Hot: four times its share, or 70 % of all tokens where that is less: its rank makes the others wait. In a balanced
// run's early transient one expert was seen above it for 270 steps, so it counts only when it lasts.
inline constexpr double kHotShare = 4, kHotTokens = 0.7, kCooled = 0.9;  // of these
inline constexpr std::int64_t kHotSteps = 400;
// Uneven: the MaxVio of 50 steps together is over this (the fullest expert has twice its share), or over half of the
// possible maximum, and over what chance gives. Layers that a bias rate of 0.001 evens out were seen above it for up to
// 620 steps; a run whose settings balance nothing is reported sooner.
inline constexpr double kUnevenVio = 1;
inline constexpr std::int64_t kUnevenSteps = 800, kUnevenStepsAlone = 400;
// Use: collapsed layers were seen at 0.07 to 0.16, an uneven one that recovered by itself at 0.35; the lowest value in
// the early transient of a balanced run was 0.61.
inline constexpr double kCollapsedUse = 0.25, kCollapseOverUse = 0.35;
// Collapsing: under 0.65, a fifth lower than 100 steps before, and falling in both halves of these. The first 150 steps
// do not count: every router settles in them.
inline constexpr double kCollapsingUse = 0.65, kCollapsingFall = 0.8;
inline constexpr int kCollapsingBlocks = 10, kEarlyBlocks = 15, kFallingBlocks = 3;
// Oscillation: deviations of the load from its mean of 50 steps are anticorrelated at some lag up to 8 steps, while the
// batch MaxVio is high and twice that of the window, and a step of the bias is no longer small against the score
// margin. All three are required, because batches whose kinds of text alternate give -0.4 as well: there the step was
// 0.02 of the margin, in runs that oscillate (rate 0.03 and 0.1) 0.3 to 2.7. And the margin must mean something: see
// GateWatch::says_nothing().
inline constexpr int kLags = 8;
inline constexpr double kAnticorrelated = -0.25;
inline constexpr double kOscillatingMaxVio = 0.5;
inline constexpr double kLargeBiasStep = 0.25;

// What determines a block's load besides the router.
struct LoadSettings {
  std::span<const std::uint8_t> killed{};  // [E] 1: cannot be chosen; empty: all can
  bool nothing_balances = false;           // known from the settings
  double bias_step = 0, margin = 0;        // of GateWatch; 0: the bias does not oscillate
};

// Number of past episodes kept for a layer, the newest.
inline constexpr std::size_t kKeptEpisodes = 32;

class LoadWatch {
 public:
  LoadWatch(int layer, const RunInfo& info);

  // Steps [first, first + n), n at most kBlock, fewer only at the end: utilisation of each step [n, all experts], NaN
  // where there is none; MaxVio of the same steps.
  void block(std::int64_t first, std::span<const float> utilisation, std::span<const float> max_vio,
             const LoadSettings& settings);

  void findings(std::vector<Finding>& out) const;
  int layer() const { return layer_; }

 private:
  // State of one expert: the step since which something has been going on; -1: it is not.
  struct Expert {
    std::int64_t silent_since = -1;
    std::int64_t silent_batches = 0, longest_silence = 0;
    double missed = 0;  // tokens of an even share that it missed while it was silent
    std::int64_t starved_since = -1, hot_since = -1;
  };
  struct Episode {
    FindingKind kind;
    std::vector<int> experts;
    StepRange steps;
    double value = 0;  // how bad
  };
  // Expectation by chance for as many tokens as there were in 50 steps.
  struct Chance {
    std::int64_t tokens = 0;
    int experts = 0;
    double effective = 0, max_vio = 0;
  };

  double slots_of(std::span<const float> row) const;
  bool is_killed(std::size_t expert) const { return !killed_.empty() && killed_[expert]; }
  void take_settings(const LoadSettings& settings);
  void count_silence(std::int64_t first, std::span<const float> utilisation);
  void add_to_mean(std::span<const float> utilisation);
  void judge_experts();
  void judge_use();
  void judge_collapse(double use);
  void judge_oscillation(const LoadSettings& settings);
  const Chance& chance();
  double window_tokens() const;
  double use_before(int blocks_ago) const;
  double strongest_anticorrelation(int& lag) const;
  bool layer_has_collapsed() const { return collapsed_since_ >= 0; }
  bool lasts(std::int64_t since, std::int64_t steps) const { return since >= 0 && last_step_ - since + 1 >= steps; }
  bool enough_to_starve(std::int64_t since) const;
  std::vector<int> hot_experts() const;

  bool is_dead(const Expert& expert) const {
    return expert.silent_batches >= kDeadBatches && expert.missed >= kExpected;
  }
  std::string batches_text(std::int64_t n) const;
  Finding make(FindingKind kind, Severity severity, StepRange steps, bool ongoing) const;
  void add_collapse(std::vector<Finding>& out) const;
  void add_dead(std::vector<Finding>& out) const;
  void add_starved(std::vector<Finding>& out) const;
  void add_hot(std::vector<Finding>& out) const;
  void add_uneven(std::vector<Finding>& out) const;
  void add_oscillation(std::vector<Finding>& out) const;
  void add_closed(std::vector<Finding>& out) const;

  int layer_, run_;
  int n_experts_, top_k_;
  std::int64_t tokens_per_step_;
  std::vector<std::uint8_t> killed_;  // [E] or empty
  int living_;                        // experts that can be chosen
  bool nothing_balances_ = false;
  bool no_load_ = true;     // until a block had some
  bool every_step_ = true;  // has had its load recorded
  int blocks_ = 0;
  std::int64_t first_step_ = -1, last_step_ = -1;  // read
  std::vector<Expert> experts_;                    // [E]
  std::vector<float> sums_;                        // [kMeanBlocks, E] of each of the last blocks, a ring
  std::array<int, kMeanBlocks> rows_{};
  std::array<double, kMeanBlocks> inverse_slots_{};  // sum over these rows of 1 / slots
  std::vector<float> mean_;                          // [E] of the last 50 steps
  std::vector<float> window_;                        // [50, E] the window being collected; NaN where there was none
  std::deque<float> use_;                            // by block, NaN: none; as far back as needed
  std::deque<float> max_vio_;                        // by block, mean of the batches', NaN: none; of 50 steps
  double mean_max_vio_ = 0;                          // of 50 steps
  double effective_ = 0;                             // experts in use, exp(H) of 50 steps
  Chance chance_;
  std::int64_t collapsing_since_ = -1, collapsed_since_ = -1, uneven_since_ = -1;
  int falling_blocks_ = 0;
  double effective_before_ = 1;   // when the fall began
  std::deque<float> effectives_;  // by block, as `use_`
  std::int64_t oscillation_since_ = -1;
  int oscillation_windows_ = 0, quiet_windows_ = 0;
  double anticorrelation_ = 0, oscillation_max_vio_ = 0, oscillation_window_vio_ = 0, oscillation_step_ = 0,
         oscillation_margin_ = 0;
  int oscillation_lag_ = 0;
  Newest<Episode, kKeptEpisodes> closed_;
};

}  // namespace moescope
