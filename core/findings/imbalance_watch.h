// Watches the load of one MoE layer for imbalance that lasts: the fullest expert of the window, ranks of expert
// parallelism that neighbouring experts share, and batches that are each uneven in their own way.
//
// Legend: E experts, R ranks, K top_k. Nothing that chance explains is reported.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "core/findings/recent_load.h"

namespace moescope {

// Uneven: the MaxVio of the window is over this (the fullest expert has twice its share), or over 70 % of the possible
// maximum where that is less, and over twice what chance gives. The fuller, the sooner: at 1, 1.25, 1.5, 2 and 2.5
// times this MaxVio for 800, 711, 640, 533 and 457 steps. Layers that a bias rate of 0.001 evens out were seen above it
// for up to 620 steps; a run whose settings balance nothing is reported after half of the time.
inline constexpr double kUnevenVio = 1, kUnevenWay = 0.7;
inline constexpr std::int64_t kUnevenSteps = 800;
inline constexpr std::array<double, 5> kUnevenLevels = {1, 1.25, 1.5, 2, 2.5};
// Uneven ranks: at least 4 neighbours, E / R of them, have this many times an even load where the experts lie on R
// ranks one after the other, and their loads in any other order would hardly ever give that: by so many standard
// deviations of the mean of E / R experts picked at random, or nearly as many as there can be, which is sqrt(E - 1). Of
// made-up layers whose loads spread by 0.15 to 0.4 fewer than 1 in 2,000 have such neighbours. Where R is not known it
// may be any number that divides E.
inline constexpr double kUnevenRank = 1.4, kRankDeviations = 5.5, kNearlyAllDeviations = 0.9;
inline constexpr int kLeastNeighbours = 4;
inline constexpr std::int64_t kUnevenRankSteps = 400;
// Uneven batches: the mean MaxVio of the batches exceeds what chance gives by this, or by 80 % of the possible maximum
// where that is less, and is three times what chance gives. In healthy logs it exceeded chance by 0.3 to 0.9.
inline constexpr double kUnevenBatch = 2, kUnevenBatchWay = 0.8, kUnevenBatchTimes = 3;
inline constexpr std::int64_t kUnevenBatchSteps = 400;

class ImbalanceWatch {
 public:
  explicit ImbalanceWatch(int ranks) : ranks_(ranks) {}  // 0 or 1: not known

  // Whether so many experts make ranks of enough neighbours; `ranks` as above.
  static bool can_tell_ranks(int experts, int ranks);
  void block(const RecentLoad& load);

  // Of a layer that has not collapsed and has no hot experts, which cover it.
  void findings(const RecentLoad& load, bool nothing_balances, std::vector<Finding>& out) const;
  // Uneven, and not for long enough yet.
  void not_yet(const RecentLoad& load, std::vector<Finding>& out) const;
  bool still_settles(const RecentLoad& load) const;  // uneven since the first steps, and less so than it was

 private:
  // The fullest of `ranks` ranks.
  struct Rank {
    int ranks = 0, rank = 0;
    double load = 0;        // times the mean
    double deviations = 0;  // of an order by chance
  };
  static double uneven_vio(const RecentLoad& load);
  static Rank fullest_rank(const RecentLoad& load, int ranks);
  std::optional<Rank> uneven_rank(const RecentLoad& load, double threshold) const;
  const Since* lasting_unevenness(const RecentLoad& load, bool nothing_balances) const;
  void add_uneven(const RecentLoad& load, const Since& since, std::vector<Finding>& out) const;
  void add_rank(const RecentLoad& load, std::vector<Finding>& out) const;
  void add_batches(const RecentLoad& load, std::vector<Finding>& out) const;

  int ranks_;
  std::array<Since, kUnevenLevels.size()> uneven_;  // by level
  double highest_vio_ = 0;                          // since it is uneven
  Since rank_, batches_;
};

}  // namespace moescope
