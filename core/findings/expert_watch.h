// Watches the load of each expert of one MoE layer, block by block: dead, starved, underused and hot experts.
//
// Nothing that chance explains is reported: kExpected tokens must be missing. Thresholds were set on four logs of a GPU
// training (64 experts, top 6: balanced, shifted, unbalanced, MXFP8) and on runs of the presets.
#pragma once

#include <cstdint>
#include <vector>

#include "core/findings/load_episode.h"
#include "core/findings/recent_load.h"

namespace moescope {

// Dead: no token in 200 steps, of which at least 20 have a load in the log. Without balancing, experts were seen
// without tokens for up to 130 steps and came back.
inline constexpr std::int64_t kDeadSteps = 200, kDeadBatches = 20;
// And an expert must have missed this many tokens of an even share meanwhile: the probability that none comes by chance
// is exp(-50).
inline constexpr double kExpected = 50;
// Starved: a mean share under 1 % of the fair one, until it exceeds twice that.
inline constexpr double kStarvedShare = 0.01, kFedShare = 0.02;
// With a bias rate of 0.001 the bias brings such experts back within 200 steps (the longest seen), in the early
// transient as well as later.
inline constexpr std::int64_t kStarvedSteps = 300;
// Underused: under a quarter of the fair share for long, until it exceeds 0.35 of it, where the experts of a layer that
// are so leave 5 % of its capacity idle together: 4 of 64 at 0.2, one of 16.
inline constexpr double kUnderusedShare = 0.25, kUsedShare = 0.35, kIdleCapacity = 0.05;
inline constexpr std::int64_t kUnderusedSteps = 400;
// Hot: four times its share, or 70 % of the way to every token where that is less: its rank makes the others wait. In a
// balanced run's early transient one expert was seen above it for 270 steps, so it counts only when it lasts.
inline constexpr double kHotShare = 4, kHotWay = 0.7;  // until kCooled of these
inline constexpr std::int64_t kHotSteps = 400;

class ExpertWatch {
 public:
  explicit ExpertWatch(int n_experts) : experts_(static_cast<std::size_t>(n_experts)) {}

  // `load` has read the block. Returns the silences of dead experts that ended in it.
  std::vector<LoadEpisode> block(const LoadBlock& block, const RecentLoad& load);

  // Those that go on. Of a collapsed layer without hot experts, which the collapse covers.
  void findings(const RecentLoad& load, bool collapsed, std::vector<Finding>& out) const;
  // What goes on and has not lasted long enough for a finding: experts without a token for kMeanSteps steps that are
  // not dead yet, experts that are not hot yet. Their kind, layer, experts and steps, without words.
  void not_yet(const RecentLoad& load, std::vector<Finding>& out) const;
  // Its experts, what was seen; adds to the title.
  void describe(const LoadEpisode& silence, const StepAxis& axis, Finding& finding) const;
  std::vector<int> hot_experts(const RecentLoad& load) const;

 private:
  // State of one expert.
  struct Expert {
    std::int64_t silent_since = -1, silent_last = -1;  // steps
    std::int64_t silent_batches = 0, longest_silence = 0;
    double missed = 0;  // tokens of an even share that it missed while it was silent
    bool had_token = false;
    Since starved, underused, hot;

    std::int64_t silent_steps() const { return silent_batches > 0 ? silent_last - silent_since + 1 : 0; }
    bool is_dead() const {
      return silent_steps() >= kDeadSteps && silent_batches >= kDeadBatches && missed >= kExpected;
    }
  };

  std::vector<LoadEpisode> count_silence(const LoadBlock& block, const RecentLoad& load);
  void follow_means(const RecentLoad& load);
  std::vector<int> starved_experts(const RecentLoad& load) const;
  void add_dead(const RecentLoad& load, std::vector<Finding>& out) const;
  void add_starved(const RecentLoad& load, std::vector<Finding>& out) const;
  void add_underused(const RecentLoad& load, std::vector<Finding>& out) const;
  void add_hot(const RecentLoad& load, std::vector<Finding>& out) const;

  std::vector<Expert> experts_;  // [E]
};

}  // namespace moescope
