// Watches the load of each expert of one MoE layer, block by block: dead, starved, underused and hot experts.
//
// Nothing that chance explains is reported: an expert must have missed kExpected tokens. Durations are in steps and
// counted in loads (load_evidence.h). Thresholds were set on four logs of a GPU training (64 experts, top 6: balanced,
// shifted, unbalanced, MXFP8) and on runs of the presets.
#pragma once

#include <cstdint>
#include <vector>

#include "core/findings/recent_load.h"

namespace moescope {

// Dead: no token in 200 steps. Without balancing, experts were seen to return after up to 130 steps without tokens.
inline constexpr std::int64_t kDeadSteps = 200;
// Starved: a mean share under 1 % of the fair share, until it exceeds 2 %.
inline constexpr double kStarvedShare = 0.01, kFedShare = 0.02;
// A bias rate of 0.001 brings such experts back within 200 steps (the longest seen), also in the early transient.
inline constexpr std::int64_t kStarvedSteps = 300;
// Underused: under a quarter of the fair share for a long time, until it exceeds 0.35 of it. Underused experts of a
// layer are reported if together they leave 5 % of its capacity idle: 4 of 64 at a share of 0.2, or one of 16.
inline constexpr double kUnderusedShare = 0.25, kUsedShare = 0.35, kIdleCapacity = 0.05;
inline constexpr std::int64_t kUnderusedSteps = 400;
// Hot: four times the fair share, or 70 % of the way from the fair share to all tokens if that is less; the other ranks
// wait for the rank of a hot expert. In the early transient of a balanced run one expert was hot for 270 steps, so it
// is reported only after kHotSteps.
inline constexpr double kHotShare = 4,
                        kHotShareOfRange = 0.7;  // an expert is hot until it is below kCooledShare times these
inline constexpr std::int64_t kHotSteps = 400;

class ExpertWatch {
 public:
  explicit ExpertWatch(int n_experts) : experts_(n_experts) {}

  // `load` must have read the block. Returns the episodes without tokens of dead experts that ended in the block.
  std::vector<LoadEpisode> block(const LoadBlock& block, const RecentLoad& load);

  // Adds ongoing findings. For a collapsed layer adds no hot experts, which the collapse includes.
  void findings(const RecentLoad& load, bool collapsed, std::vector<Finding>& out) const;
  // Adds conditions that have not lasted long enough for a finding: experts without a token for kMeanSteps steps that
  // are not dead yet, and experts that are not starved or hot yet. Sets kind, layer, experts and steps, but no texts.
  void not_yet(const RecentLoad& load, std::vector<Finding>& out) const;
  // Sets Finding::experts and Finding::observation; extends the title.
  void describe(const LoadEpisode& silence, const StepAxis& axis, Finding& finding) const;
  std::vector<int> hot_experts(const RecentLoad& load) const {
    return experts_where(experts_, [&](const Expert& expert) { return load.lasts(expert.hot, kHotSteps); });
  }

 private:
  // State of one expert.
  struct Expert {
    std::int64_t silent_since = -1, silent_last = -1;  // first and last load without a token
    std::int64_t silent_loads = 0;
    LoadSpan longest_silence;
    double missed = 0;  // tokens of an even share that the expert missed in these steps
    ConditionStart starved, underused, hot;
  };

  std::vector<LoadEpisode> count_silence(const LoadBlock& block, const RecentLoad& load);
  void follow_means(const RecentLoad& load);
  static LoadSpan silence(const Expert& expert, const RecentLoad& load) {
    return {expert.silent_loads, load.axis().step(expert.silent_since), load.axis().step(expert.silent_last)};
  }
  // True if the expert has had no token for `steps` steps and has missed kExpected tokens.
  static bool is_silent_for(std::int64_t steps, const Expert& expert, const RecentLoad& load);
  static bool is_dead(const Expert& expert, const RecentLoad& load) { return is_silent_for(kDeadSteps, expert, load); }
  const Expert& state_of(int expert) const { return experts_[expert]; }
  std::vector<int> starved_experts(const RecentLoad& load) const;
  void add_dead(const RecentLoad& load, std::vector<Finding>& out) const;
  void add_starved(const RecentLoad& load, std::vector<Finding>& out) const;
  void add_underused(const RecentLoad& load, std::vector<Finding>& out) const;
  void add_hot(const RecentLoad& load, std::vector<Finding>& out) const;

  std::vector<Expert> experts_;  // [E]
};

}  // namespace moescope
