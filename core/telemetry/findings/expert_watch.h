// Watches the load of each expert of one MoE layer, block by block: dead, starved and hot experts.
//
// Nothing that chance explains is reported: kExpected tokens must be missing. Thresholds were set on four logs of a GPU
// training (64 experts, top 6: balanced, shifted, unbalanced, MXFP8) and on runs of the presets.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/telemetry/findings/load_episode.h"
#include "core/telemetry/findings/recent_load.h"

namespace moescope {

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
inline constexpr double kHotShare = 4, kHotTokens = 0.7;  // until kCooled of these
inline constexpr std::int64_t kHotSteps = 400;

class ExpertWatch {
 public:
  explicit ExpertWatch(int n_experts) : experts_(static_cast<std::size_t>(n_experts)) {}

  // The steps from `first` on: utilisation of each [n, E], NaN where there is none. `load` has read them. Returns the
  // silences of dead experts that ended in them.
  std::vector<LoadEpisode> block(std::int64_t first, std::span<const float> utilisation, const RecentLoad& load);

  // Those that go on. Of a collapsed layer without hot experts, which the collapse covers.
  void findings(const RecentLoad& load, bool collapsed, std::vector<Finding>& out) const;
  // What goes on and has not lasted long enough for a finding: experts without a token for kMeanSteps batches that are
  // not dead yet, experts that are not hot yet. Their kind, layer, experts and steps, without words.
  void not_yet(const RecentLoad& load, std::vector<Finding>& out) const;
  // Its experts, what was seen; adds to the title.
  void describe(const LoadEpisode& silence, const StepAxis& axis, Finding& finding) const;
  std::vector<int> hot_experts(const RecentLoad& load) const;

 private:
  // State of one expert: the step since which something has been going on; -1: it is not.
  struct Expert {
    std::int64_t silent_since = -1;
    std::int64_t silent_batches = 0, longest_silence = 0;
    double missed = 0;  // tokens of an even share that it missed while it was silent
    std::int64_t starved_since = -1, hot_since = -1;

    bool is_dead() const { return silent_batches >= kDeadBatches && missed >= kExpected; }
  };

  std::vector<LoadEpisode> count_silence(std::int64_t first, std::span<const float> utilisation,
                                         const RecentLoad& load);
  void follow_means(const RecentLoad& load);
  void add_dead(const RecentLoad& load, std::vector<Finding>& out) const;
  void add_starved(const RecentLoad& load, std::vector<Finding>& out) const;
  void add_hot(const RecentLoad& load, std::vector<Finding>& out) const;
  std::string batches_text(std::int64_t n) const;

  std::vector<Expert> experts_;  // [E]
  bool every_step_ = true;       // has had its load recorded
};

}  // namespace moescope
