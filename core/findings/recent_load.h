// The load of one MoE layer over its newest 50 steps, read block by block: the mean load of each expert, and the values
// of chance for as many tokens. It judges nothing; the watches of a layer's load do.
//
// Blocks without a load do not count: for a log with a load on every 20th step the window holds the newest 5 loads. For
// how long a condition has to last is counted in loads (load_evidence.h).
//
// Legend: E experts, T tokens of a step, K top_k, u_e = n_e E / (K T) utilisation. "Living" experts can be chosen; the
// user killed all others.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/findings/findings.h"
#include "core/findings/load_evidence.h"
#include "core/recording/history/step_axis.h"

namespace moescope {

// Number of blocks of a window, 50 steps: enough to average out the noise of batches, and short compared with a
// training.
inline constexpr int kMeanBlocks = 5;
inline constexpr std::int64_t kMeanSteps = FindingsScan::kBlock * kMeanBlocks;
// A condition that begins above a threshold ends below this multiple of the threshold.
inline constexpr double kCooledShare = 0.9;

// Steps [first, first + n) of one layer; n is kBlock, or less at the end: the window then begins within a block.
struct LoadBlock {
  std::int64_t first = 0;
  std::span<const float> utilisation;  // [n, all experts]; NaN for a step without a load
  std::span<const float> max_vio;      // [n] MaxVio of the batches
  std::span<const float> assignments;  // [n] T K
  std::span<const float> losses;       // [n] cross-entropy; NaN: not known
};

// A past condition of a layer's load.
struct LoadEpisode {
  FindingKind kind;
  StepRange steps;
  int expert = -1;     // if the episode is about one expert
  double max_vio = 0;  // for an oscillation: mean over its batches
};

// Number of consecutive windows in which a condition holds.
struct ConsecutiveWindows {
  int windows = 0;
  std::int64_t first_step = -1;
  void follow(std::int64_t step, bool holds) {
    windows = holds ? windows + 1 : 0;
    if (windows == 1) first_step = step;
  }
};

// Returns the indices of the experts for which `holds`.
template <class Expert, class Holds>
std::vector<int> experts_where(const std::vector<Expert>& experts, Holds holds) {
  std::vector<int> found;
  for (std::size_t e = 0; e < experts.size(); ++e)
    if (std::invoke(holds, experts[e])) found.push_back(to_int(e));
  return found;
}

// Start of a condition.
struct ConditionStart {
  std::int64_t step = -1;  // position of the first load that shows it; -1: the condition does not hold
  std::int64_t loads = 0;  // loads read before `step`
  bool goes_on() const { return step >= 0; }
};

class RecentLoad {
 public:
  // Values of chance for as many tokens as the window has (router_stats.h), and as one of its batches has.
  struct Chance {
    std::int64_t tokens = 0, batch_tokens = 0;
    int experts = 0;
    double effective = 0;  // experts in use: exp of the entropy of the load
    double max_vio = 0;
    double batch_max_vio = 0;
  };

  RecentLoad(int layer, const RunInfo& info, const StepAxis& axis);  // info.n_experts > 0

  // `killed`: [E], 1: cannot be chosen; empty: all experts can.
  void pass(StepRange steps, std::span<const std::uint8_t> killed);  // steps without a load in the log
  void add(const LoadBlock& block, std::span<const std::uint8_t> killed);

  int layer() const { return layer_; }
  const StepAxis& axis() const { return *axis_; }  // all steps here are positions of this axis
  int n_experts() const { return n_experts_; }
  int top_k() const { return top_k_; }
  // " on rank 3 at EP 8", " on ranks 12 to 17 at EP 32": where these experts are, which are placed in order; empty if
  // they are placed otherwise, on all ranks, or if the run has no ranks.
  std::string on_ranks(std::span<const int> experts) const;
  int living() const { return living_; }
  bool is_killed(std::size_t expert) const { return !killed_.empty() && killed_[expert]; }

  bool no_load() const { return loads_ == 0; }                 // no load has been read
  bool is_new() const { return is_new_; }                      // the newest block has a load
  bool completes_window() const { return completes_window_; }  // the newest block completes a window of kMeanBlocks
  // True if the window is full, or if the log has only totals of many tokens.
  bool can_be_judged() const { return blocks_ >= kMeanBlocks || are_totals(); }
  bool are_totals() const { return moescope::are_totals(origin_, has_loss_, loads_, slots_ / top_k_ / loads_); }
  std::int64_t last_step() const { return last_step_; }                             // last step read
  std::int64_t first_step() const { return block_of_window(0).positions.front(); }  // first load of the window
  bool every_step() const { return loads_ == last_step_ - first_read_ + 1; }
  LoadSpan all_loads() const { return {loads_, axis_->step(first_load_), axis_->step(last_load_)}; }
  LoadSpan window_loads() const { return {loads_in_window(), axis_->step(first_step()), axis_->step(last_load_)}; }
  double expected() const { return slots_ / living_; }  // tokens of an even share in all loads
  int loads_in_window() const;

  std::span<const float> mean() const { return mean_; }  // [E] u_e of the window
  double mean_of(int expert) const { return mean_[expert]; }
  int fullest() const {
    return to_int(std::ranges::max_element(mean_) - mean_.begin());
  }                                                          // expert with the highest mean
  double share(std::size_t expert) const;                    // mean relative to an even load of the living experts
  double fullest_share() const { return share(fullest()); }  // highest share
  // MaxVio if the same K experts get every token.
  double max_possible_vio() const { return static_cast<double>(living_) / top_k_ - 1; }
  double mean_max_vio() const { return mean_max_vio_; }  // mean over the window's batches; NaN: not known
  // Number of tokens whose load by chance has the spread of the window's mean: all tokens if batches have one size.
  double tokens() const;
  const Chance& chance() const { return chance_; }

  // Updates a condition on the means: it begins if `begins`, and ends if `ends`. It begins with the first load of the
  // window whose fullest expert is at least half as far above an even load as the fullest experts of the window.
  void follow(bool begins, bool ends, ConditionStart& start) const;
  // The same for the mean share of an expert: it begins with the first load of the window for which shows(share) holds.
  template <class Shows>
  void follow(std::size_t expert, Shows shows, bool begins, bool ends, ConditionStart& start) const;
  // Loads since a condition began. `lasts` is true if they are enough for `steps` steps, or if the log has only totals.
  LoadSpan loads_since(const ConditionStart& start) const {
    return {loads_ - start.loads, axis_->step(start.step), axis_->step(last_load_)};
  }
  bool lasts(const ConditionStart& start, std::int64_t steps) const {
    return start.goes_on() && (are_totals() || loads_since(start).lasts(steps));
  }
  // Returns how long these loads are, "for 350 steps", or "in 3 totals of 300,000 tokens".
  std::string seen_text(const LoadSpan& span) const;

  // Returns an ongoing finding with the common members set; its title is the name of the layer.
  Finding finding(FindingKind kind, std::int64_t first_step) const;

 private:
  struct KeptBlock {
    std::vector<std::int64_t> positions;  // [loads]
    std::vector<float> utilisation;       // [loads, E]
    std::vector<double> load_slots;       // [loads] T K
    std::vector<float> max_vios;          // [steps of the block]
    std::vector<float> sums;              // [E]
    int loads() const { return to_int(positions.size()); }
  };
  int blocks_in_window() const { return std::min(blocks_, kMeanBlocks); }  // blocks in the window
  // The b-th oldest block of the window.
  const KeptBlock& block_of_window(int b) const { return ring_[(blocks_ - blocks_in_window() + b) % kMeanBlocks]; }
  void keep_rest_of_oldest(const KeptBlock& fresh);
  void update_means();
  void update_chance();
  std::span<const float> row(const KeptBlock& block, int load) const {  // [E]
    const std::size_t experts = n_experts_;
    return std::span(block.utilisation).subspan(load * experts, experts);
  }
  // Returns the first load of the window for which `shows(row)` holds; the first of the window if there is none.
  template <class Shows>
  ConditionStart first_load_where(Shows shows) const;

  const StepAxis* axis_;
  RunOrigin origin_;
  int layer_, run_;
  int n_experts_, top_k_, ranks_;
  std::vector<std::uint8_t> killed_;  // [E] or empty
  int living_;
  bool is_new_ = false, completes_window_ = false, has_loss_ = false;
  int blocks_ = 0;  // blocks with a load
  std::int64_t loads_ = 0;
  double slots_ = 0;  // sum of T K over all loads
  std::int64_t first_read_ = -1, last_step_ = -1;
  std::int64_t first_load_ = -1, last_load_ = -1;
  std::array<KeptBlock, kMeanBlocks> ring_;
  std::vector<float> mean_;  // [E]
  double mean_max_vio_ = 0;
  Chance chance_;
};

template <class Shows>
ConditionStart RecentLoad::first_load_where(Shows shows) const {
  const std::int64_t loads_before_window = loads_ - loads_in_window();
  std::int64_t loads_before = loads_before_window;
  for (int b = 0; b < blocks_in_window(); ++b) {
    const KeptBlock& block = block_of_window(b);
    for (int i = 0; i < block.loads(); ++i, ++loads_before)
      if (shows(row(block, i))) return {block.positions[i], loads_before};
  }
  return {first_step(), loads_before_window};
}

template <class Shows>
void RecentLoad::follow(std::size_t expert, Shows shows, bool begins, bool ends, ConditionStart& start) const {
  const bool went_on = start.goes_on();
  follow(begins, ends, start);
  if (went_on || !start.goes_on()) return;
  start = first_load_where([&](std::span<const float> utilisation) {
    return shows(static_cast<double>(utilisation[expert]) * living_ / n_experts_);
  });
}

}  // namespace moescope
