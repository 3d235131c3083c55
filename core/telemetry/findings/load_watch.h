// Watches the load of one MoE layer, block by block: its collapse and lasting imbalance, its experts
// (expert_watch.h) and whether it oscillates (oscillation_watch.h).
//
// "Use" is (exp(H) - K) / (exp(H0) - K): H is the entropy of the load of 50 steps together, H0 its expectation by
// chance for as many tokens (router_stats.h), K top_k: 1 where all experts have the same load, 0 where the same K get
// every token. For single batches it would report layers as collapsed whose batches are small or whose experts take
// turns. Nothing that chance explains is reported as uneven. Thresholds were set on four logs of a GPU training (64
// experts, top 6: balanced, shifted, unbalanced, MXFP8) and on runs of the presets.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/telemetry/findings/expert_watch.h"
#include "core/telemetry/findings/load_episode.h"
#include "core/telemetry/findings/oscillation_watch.h"
#include "core/telemetry/findings/recent_load.h"
#include "core/telemetry/frame/newest.h"

namespace moescope {

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

// What determines a block's load besides the router.
struct LoadSettings {
  std::span<const std::uint8_t> killed{};  // [E] 1: cannot be chosen; empty: all can
  bool nothing_balances = false;           // known from the settings
  BiasStep bias_step{};
};

// Number of past episodes kept for a layer, the newest.
inline constexpr std::size_t kKeptEpisodes = 32;

class LoadWatch {
 public:
  LoadWatch(int layer, const RunInfo& info, const StepAxis& axis);  // info.n_experts > 0

  // Steps [first, first + n), n at most kBlock, fewer only at the end: utilisation of each step [n, all experts], NaN
  // where there is none; MaxVio of the same steps.
  void block(std::int64_t first, std::span<const float> utilisation, std::span<const float> max_vio,
             const LoadSettings& settings);

  void findings(std::vector<Finding>& out) const;
  void not_yet(std::vector<Finding>& out) const { experts_.not_yet(load_, out); }  // expert_watch.h
  int layer() const { return load_.layer(); }

 private:
  void judge_unevenness();
  void judge_use();
  void judge_collapse(double use);
  double use_before(int blocks_ago) const;
  bool has_collapsed() const { return collapsed_since_ >= 0; }
  void add_collapse(std::vector<Finding>& out) const;
  void add_uneven(std::vector<Finding>& out) const;
  void add_past(std::vector<Finding>& out) const;

  RecentLoad load_;
  ExpertWatch experts_;
  OscillationWatch oscillation_;
  bool nothing_balances_ = false;
  double effective_ = 0;          // experts in use, exp(H) of 50 steps
  std::deque<float> use_;         // by block, NaN: none; as far back as needed
  std::deque<float> effectives_;  // by block, as `use_`
  std::int64_t collapsing_since_ = -1, collapsed_since_ = -1, uneven_since_ = -1;
  int falling_blocks_ = 0;
  double effective_before_ = 1;  // when the fall began
  Newest<LoadEpisode, kKeptEpisodes> past_;
};

}  // namespace moescope
