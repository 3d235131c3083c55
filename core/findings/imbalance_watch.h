// Watches the load of one MoE layer for lasting imbalance: the fullest expert of the window, neighbouring experts that
// share a rank of expert parallelism, and batches that are each uneven in their own way.
//
// Legend: E experts, R ranks, K top_k. Nothing that chance explains is reported.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "core/findings/recent_load.h"

namespace moescope {

// Uneven: the MaxVio of the window exceeds kUnevenVio (the fullest expert has twice its share), or 55 % of the possible
// maximum if that is less, and it exceeds twice the value of chance. Higher levels are reported sooner: 1, 1.25, 1.5, 2
// and 2.5 times this MaxVio after 800, 711, 640, 533 and 457 steps, or after half of these steps if the settings of the
// run balance nothing. Layers that a bias rate of 0.001 balanced were above the lowest level for up to 620 steps.
inline constexpr double kUnevenVio = 1, kUnevenWay = 0.55;
inline constexpr std::int64_t kUnevenSteps = 800;
inline constexpr std::array<double, 5> kUnevenLevels = {1, 1.25, 1.5, 2, 2.5};
// Uneven ranks: if the experts are placed on R ranks in order, the E / R experts of one rank (at least 4) have
// kUnevenRank times an even load. Another order of the experts would hardly ever give such a load: it is
// kRankDeviations standard deviations above the mean of E / R random experts, or nearly the possible maximum,
// sqrt(E - 1). Of made-up layers with a spread of load of 0.15 to 0.4, fewer than 1 in 2,000 are reported. If R is not
// known, it may be any divisor of E.
inline constexpr double kUnevenRank = 1.4, kRankDeviations = 5.5, kNearlyAllDeviations = 0.9;
inline constexpr int kMinNeighbours = 4;
inline constexpr std::int64_t kUnevenRankSteps = 400;
// Uneven batches: the mean MaxVio of the batches exceeds the value of chance by kUnevenBatch, or by 80 % of the
// possible maximum if that is less, and is at least three times the value of chance. In healthy logs it exceeded chance
// by 0.3 to 0.9.
inline constexpr double kUnevenBatch = 2, kUnevenBatchWay = 0.8, kUnevenBatchTimes = 3;
inline constexpr std::int64_t kUnevenBatchSteps = 400;

class ImbalanceWatch {
 public:
  explicit ImbalanceWatch(int ranks) : ranks_(ranks) {}  // 0 or 1: not known

  // True if the experts can be divided into ranks of at least kMinNeighbours experts; `ranks`: see the constructor.
  static bool can_tell_ranks(int experts, int ranks);
  void block(const RecentLoad& load);

  // Adds the findings of a layer that is not collapsed and has no hot experts; those findings include imbalance.
  void findings(const RecentLoad& load, bool nothing_balances, std::vector<Finding>& out) const;
  // Adds an uneven load that has not lasted long enough for a finding.
  void not_yet(const RecentLoad& load, std::vector<Finding>& out) const;
  bool still_settles(const RecentLoad& load) const;  // uneven since the first steps, but less than before

 private:
  // The fullest of `ranks` ranks.
  struct Rank {
    int ranks = 0, rank = 0;
    double load = 0;        // relative to the mean
    double deviations = 0;  // from the mean of random orders
  };
  static double uneven_vio(const RecentLoad& load) {
    return std::max(std::min(kUnevenVio, kUnevenWay * load.max_possible_vio()), 2 * load.chance().max_vio);
  }
  static Rank fullest_rank(const RecentLoad& load, int ranks);
  std::optional<Rank> uneven_rank(const RecentLoad& load, double threshold) const;
  const ConditionStart* lasting_unevenness(const RecentLoad& load, bool nothing_balances) const;
  void add_uneven(const RecentLoad& load, const ConditionStart& start, std::vector<Finding>& out) const;
  void add_rank(const RecentLoad& load, std::vector<Finding>& out) const;
  void add_batches(const RecentLoad& load, std::vector<Finding>& out) const;

  int ranks_;
  std::array<ConditionStart, kUnevenLevels.size()> uneven_;  // for each level
  double highest_vio_ = 0;                                   // highest MaxVio since the load became uneven
  ConditionStart rank_, batches_;
};

}  // namespace moescope
