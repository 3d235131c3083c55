// The load of one MoE layer over its newest 50 steps, read block by block: every batch's row, the mean of each expert,
// and what chance would show with as many tokens. The watches of a layer's load judge it; it judges nothing itself.
//
// Blocks without a load do not count: of a log with a load on every 20th step the window holds the newest 5 loads.
//
// Legend: E experts, T tokens of a step, K top_k, u_e = n_e E / (K T) utilisation. "Living" experts can be chosen, all
// others were killed by hand.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/findings/findings.h"
#include "core/history/step_axis.h"

namespace moescope {

// Means are over this many blocks, 50 steps: long compared with the spread of batches, short compared with training.
inline constexpr int kMeanBlocks = 5;
inline constexpr std::int64_t kMeanSteps = FindingsScan::kBlock * kMeanBlocks;
// Too high a share is over at this part of the threshold at which it began.
inline constexpr double kCooled = 0.9;
// What is said to last has been seen in at least so many loads, however far apart they are.
inline constexpr std::int64_t kLeastLoads = 10;

// Steps [first, first + n) of one layer, n at most kBlock, fewer only at the end.
struct LoadBlock {
  std::int64_t first = 0;
  std::span<const float> utilisation;  // [n, all experts], NaN where a step has none
  std::span<const float> max_vio;      // [n] of the batches
  std::span<const float> assignments;  // [n] T K
};

// Since when something has been going on.
struct Since {
  std::int64_t step = -1;  // -1: it is not
  std::int64_t loads = 0;  // read before it
  bool goes_on() const { return step >= 0; }
};

class RecentLoad {
 public:
  // Expectation by chance for as many tokens as the window has (router_stats.h), and as one of its batches has.
  struct Chance {
    std::int64_t tokens = 0, batch_tokens = 0;
    int experts = 0;
    double effective = 0;  // experts in use, exp of the entropy of their load
    double max_vio = 0;
    double batch_max_vio = 0;
  };

  RecentLoad(int layer, const RunInfo& info, const StepAxis& axis);  // info.n_experts > 0

  // `killed` [E], 1: cannot be chosen; empty: all can.
  void pass(StepRange steps, std::span<const std::uint8_t> killed);  // nothing is logged of them
  void add(const LoadBlock& block, std::span<const std::uint8_t> killed);

  int layer() const { return layer_; }
  const StepAxis& axis() const { return *axis_; }  // of whose positions all steps here are
  int n_experts() const { return n_experts_; }
  int top_k() const { return top_k_; }
  int living() const { return living_; }
  bool is_killed(std::size_t expert) const { return !killed_.empty() && killed_[expert]; }

  bool no_load() const { return loads_ == 0; }                 // so far
  bool is_new() const { return is_new_; }                      // the newest block has a load
  bool is_full() const { return blocks_ >= kMeanBlocks; }      // the window is
  bool completes_window() const { return completes_window_; }  // with the newest block, every kMeanBlocks
  std::int64_t last_step() const { return last_step_; }        // read
  std::int64_t steps_read() const { return last_step_ - first_read_ + 1; }
  std::int64_t first_step() const;               // of the window
  std::int64_t loads() const { return loads_; }  // read so far
  bool every_step() const { return loads_ == steps_read(); }
  std::string batches_text(std::int64_t n) const;  // "50 steps", or "5 logged batches"
  int loads_in_window() const;

  std::span<const float> mean() const { return mean_; }  // [E] u_e of the window
  double mean_of(int expert) const { return static_cast<double>(mean_[static_cast<std::size_t>(expert)]); }
  int fullest() const;                                   // the expert with the highest mean
  double share(std::size_t expert) const;                // its mean against an even load of the living
  double fullest_share() const;                          // the highest of them
  double most() const;                                   // MaxVio where the same K experts get every token
  double mean_max_vio() const { return mean_max_vio_; }  // of the window's batches, likewise; NaN: none has it
  // So many tokens have the spread that the mean of the window's loads has: all of them, where batches are of one size.
  double tokens() const;
  const Chance& chance() const { return chance_; }

  // Of a state of the means that `begins` or `ends`.
  void follow(bool begins, bool ends, Since& since) const;
  bool lasts(const Since& since, std::int64_t steps) const;
  std::int64_t steps_since(const Since& since) const { return last_step_ - since.step + 1; }

  // What findings on this load have in common; the title is the layer's name.
  Finding finding(FindingKind kind, Severity severity, StepRange steps, bool ongoing) const;

 private:
  struct Kept {
    std::int64_t first = 0;
    int loads = 0;
    double inverse_slots = 0;  // sum over the loads of 1 / (T K)
    float max_vio = 0;         // mean of the batches', NaN: none
    std::vector<float> sums;   // [E]
  };
  int kept() const { return std::min(blocks_, kMeanBlocks); }  // blocks
  void update_means();
  void update_chance();

  const StepAxis* axis_;
  int layer_, run_;
  int n_experts_, top_k_;
  std::vector<std::uint8_t> killed_;  // [E] or empty
  int living_;
  bool is_new_ = false, completes_window_ = false;
  int blocks_ = 0;  // with a load
  std::int64_t loads_ = 0;
  std::int64_t first_read_ = -1, last_step_ = -1;
  std::array<Kept, kMeanBlocks> ring_;
  std::vector<float> mean_;  // [E]
  double mean_max_vio_ = 0;
  Chance chance_;
};

}  // namespace moescope
