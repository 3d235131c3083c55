// Watches the load of one MoE layer, block by block: its collapse, its experts (expert_watch.h), its lasting imbalance
// (imbalance_watch.h) and its oscillation (oscillation_watch.h).
//
// "Use" is (exp(H) - K) / (exp(H0) - K): H is the entropy of the load of 50 steps together, H0 its expectation by
// chance for as many tokens (router_stats.h), K top_k. It is 1 if all experts have the same load, 0 if the same K
// experts get every token. The use of a single batch would be low for layers with small batches or with experts that
// alternate, which have not collapsed. Thresholds were set on four logs of a GPU training (64 experts, top 6: balanced,
// shifted, unbalanced, MXFP8) and on runs of the presets.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/findings/expert_watch.h"
#include "core/findings/imbalance_watch.h"
#include "core/findings/oscillation_watch.h"
#include "core/findings/recent_load.h"
#include "core/frame/newest.h"

namespace moescope {

// Collapsed layers had a use of 0.07 to 0.16, an uneven layer that recovered by itself 0.35; the lowest value in the
// early transient of a balanced run was 0.61.
inline constexpr double kCollapsedUse = 0.25, kCollapseOverUse = 0.35;
// Use means nothing if chance alone would use fewer than this many experts beyond top_k.
inline constexpr double kMinToTell = 2;
// Collapsing: a use under 0.65, a fifth lower than 100 steps before, and falling in both halves of these steps. It is
// not reported in the first 150 steps, because loads change most in them.
inline constexpr double kCollapsingUse = 0.65, kCollapsingFall = 0.8;
inline constexpr int kCollapsingBlocks = 10, kFallingBlocks = 3;
inline constexpr std::int64_t kEarlySteps = 150;

// Settings that affect a block's load.
struct LoadSettings {
  std::span<const std::uint8_t> killed{};  // [E] 1: cannot be chosen; empty: all experts can
  bool nothing_balances = false;           // the settings balance nothing
  BiasStep bias_step{};
};

// Number of past episodes that are kept for a layer; older ones are dropped.
inline constexpr std::size_t kKeptEpisodes = 32;

class LoadWatch {
 public:
  LoadWatch(int layer, const RunInfo& info, const StepAxis& axis);  // info.n_experts > 0
  // False if a balanced router would use hardly more than top_k experts by chance, so that use means nothing. `tokens`
  // of a window; 0: not known, assumed to be large enough.
  static bool can_tell_collapse(const RunInfo& info, std::int64_t tokens);

  void pass(StepRange steps, const LoadSettings& settings);  // steps for which the layer has no load
  void block(const LoadBlock& block, const LoadSettings& settings);

  void findings(std::vector<Finding>& out) const;
  // Adds conditions that have not lasted long enough for a finding: kind, layer, experts and steps, without texts.
  void not_yet(std::vector<Finding>& out) const;
  bool still_settles() const { return imbalance_.still_settles(load_); }
  const RecentLoad& load() const { return load_; }
  int layer() const { return load_.layer(); }

 private:
  struct Load {
    std::int64_t step;
    float fullest;  // utilisation of the fullest expert
  };
  struct Block {
    float use, effective;  // use: NaN if chance alone would use hardly more than top_k experts
    std::vector<Load> loads;
  };
  void judge_use(const LoadBlock& block);
  void judge_collapse(double use);
  double use_before(int blocks_ago) const;
  std::size_t last_block_before_fall() const;
  static std::int64_t first_load_of_fall(std::vector<Load> loads, const std::vector<Load>& next);
  bool has_collapsed() const { return collapsed_.goes_on(); }
  // Before a collapse has lasted, hot experts and a lasting imbalance are the findings.
  bool reports_collapse() const { return has_collapsed() && load_.lasts(collapsed_, kMeanSteps); }
  void add_collapse(std::vector<Finding>& out) const;
  void add_past(std::vector<Finding>& out) const;

  RecentLoad load_;
  ExpertWatch experts_;
  ImbalanceWatch imbalance_;
  OscillationWatch oscillation_;
  bool nothing_balances_ = false;
  double effective_ = 0;      // experts in use, exp(H) of 50 steps
  std::deque<Block> blocks_;  // at most kCollapsingBlocks + 1, newest last
  std::int64_t collapsing_since_ = -1;
  ConditionStart collapsed_;
  int falling_blocks_ = 0;
  double effective_before_ = 1;  // experts in use when the fall began
  Newest<LoadEpisode, kKeptEpisodes> past_;
};

}  // namespace moescope
