// The load of one MoE layer over its newest 50 steps, read block by block: every step's row, the mean of each expert,
// and what chance would show with as many tokens. The watches of a layer's load judge it; it judges nothing itself.
//
// Legend: E experts, T tokens of a step, K top_k, u_e = n_e E / (K T) utilisation. "Living" experts can be chosen, all
// others were killed by hand.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/telemetry/findings/findings.h"
#include "core/telemetry/findings/step_axis.h"

namespace moescope {

// Means are over this many blocks, 50 steps: long compared with the spread of batches, short compared with training.
inline constexpr int kMeanBlocks = 5;
inline constexpr std::int64_t kMeanSteps = FindingsScan::kBlock * kMeanBlocks;
// Too high a share is over at this part of the threshold at which it began.
inline constexpr double kCooled = 0.9;

class RecentLoad {
 public:
  // Expectation by chance for as many tokens as the window has (router_stats.h).
  struct Chance {
    std::int64_t tokens = 0;
    int experts = 0;
    double effective = 0;  // experts in use, exp of the entropy of their load
    double max_vio = 0;
  };

  RecentLoad(int layer, const RunInfo& info, const StepAxis& axis);  // info.n_experts > 0

  // Steps [first, first + n), n at most kBlock, fewer only at the end: utilisation of each step [n, E], NaN where there
  // is none; MaxVio of the same steps. `killed` [E], 1: cannot be chosen; empty: all can.
  void add(std::int64_t first, std::span<const float> utilisation, std::span<const float> max_vio,
           std::span<const std::uint8_t> killed);

  int layer() const { return layer_; }
  const StepAxis& axis() const { return *axis_; }  // of whose positions all steps here are
  int n_experts() const { return n_experts_; }
  int top_k() const { return top_k_; }
  int living() const { return living_; }
  bool is_killed(std::size_t expert) const { return !killed_.empty() && killed_[expert]; }

  bool no_load() const { return no_load_; }                    // so far
  int blocks() const { return blocks_; }                       // read so far
  bool completes_window() const { return completes_window_; }  // with the newest block, every kMeanBlocks
  std::int64_t last_step() const { return last_step_; }        // read
  std::int64_t first_step() const;                             // of the window

  std::span<const float> mean() const { return mean_; }  // [E] u_e of the window
  double mean_of(int expert) const { return static_cast<double>(mean_[static_cast<std::size_t>(expert)]); }
  int fullest() const;                                   // the expert with the highest mean
  double share(std::size_t expert) const;                // its mean against an even load of the living
  double fullest_share() const;                          // the highest of them
  double mean_max_vio() const { return mean_max_vio_; }  // of the window's batches; NaN: none has it
  std::span<const float> row(std::int64_t s) const;      // [E] u_e of its step s, the oldest first; NaN: none
  double slots(std::span<const float> row) const;        // T K of the step with these loads
  // So many tokens have the spread that the mean of the window's loads has: all of them, where batches are of one size.
  double tokens() const;
  const Chance& chance() const { return chance_; }

  // Of a state of the means that `begins` or `ends`: the step since which it has been going on, -1: it is not.
  void follow(bool begins, bool ends, std::int64_t& since) const;
  bool lasts(std::int64_t since, std::int64_t steps) const { return since >= 0 && last_step_ - since + 1 >= steps; }

  // What findings on this load have in common; the title is the layer's name.
  Finding finding(FindingKind kind, Severity severity, StepRange steps, bool ongoing) const;

 private:
  void add_to_mean(std::span<const float> utilisation);
  void update_chance();

  const StepAxis* axis_;
  int layer_, run_;
  int n_experts_, top_k_;
  std::int64_t tokens_per_step_;
  std::vector<std::uint8_t> killed_;  // [E] or empty
  int living_;
  bool no_load_ = true, completes_window_ = false;
  int blocks_ = 0;
  std::int64_t first_read_ = -1, last_step_ = -1;
  std::vector<float> rows_;                          // [50, E] a ring of blocks; NaN where there was none
  std::vector<float> sums_;                          // [kMeanBlocks, E] of each block of the ring
  std::array<int, kMeanBlocks> counts_{};            // rows with a load in each
  std::array<double, kMeanBlocks> inverse_slots_{};  // sum over these rows of 1 / slots
  std::vector<float> mean_;                          // [E]
  std::deque<float> max_vio_;                        // by block, mean of the batches', NaN: none
  double mean_max_vio_ = 0;
  Chance chance_;
};

}  // namespace moescope
