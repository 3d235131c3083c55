#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "core/cluster/ranks/placement.h"
#include "core/cluster/ranks/routing_patterns.h"
#include "core/cluster/ranks/volumes.h"

namespace moescope {
namespace {

std::vector<int> slots_of(const Placement& placement) {
  std::vector<int> slots(placement.ranks);
  for (const std::int32_t rank : placement.replica_rank) ++slots.at(rank);
  return slots;
}

double max_over_mean(const std::vector<double>& loads) {
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  return std::ranges::max(loads) * static_cast<double>(loads.size()) / sum;
}

std::vector<std::uint64_t> skewed_load(int n_experts) {
  std::vector<std::uint64_t> load(n_experts);
  for (const std::int32_t expert : route_by_pattern(parse_routing_pattern("zipf:0.9"), 8192, 8, n_experts))
    ++load[expert];
  return load;
}

TEST(Placement, ContiguousIsTheRule) {
  const Placement placement = place_contiguous(256, 32);
  for (int e = 0; e < 256; ++e) EXPECT_EQ(placement.replica_rank[e], e / 8);
  EXPECT_FALSE(placement.replicated());
  EXPECT_EQ(slots_of(place_contiguous(10, 4)), (std::vector<int>{3, 2, 3, 2}));
}

TEST(Placement, RandomKeepsTheSameNumberOnEachRankAndTheSeedDecides) {
  const Placement a = place_random(256, 32, 1), b = place_random(256, 32, 1), c = place_random(256, 32, 2);
  EXPECT_EQ(slots_of(a), std::vector<int>(32, 8));
  EXPECT_EQ(a.replica_rank, b.replica_rank);
  EXPECT_NE(a.replica_rank, c.replica_rank);
  EXPECT_NE(a.replica_rank, place_contiguous(256, 32).replica_rank);
}

TEST(Placement, BalancerEvensOutTheLoad) {
  const auto load = skewed_load(256);
  const double before = max_over_mean(rank_loads(place_contiguous(256, 32), load));
  const Placement packed = place_balanced(load, 32, {8, 1, 8}), replicated = place_balanced(load, 32, {10, 1, 8});
  EXPECT_FALSE(packed.replicated());
  EXPECT_TRUE(replicated.replicated());
  EXPECT_EQ(slots_of(packed), std::vector<int>(32, 8));
  EXPECT_EQ(slots_of(replicated), std::vector<int>(32, 10));
  EXPECT_LT(max_over_mean(rank_loads(packed, load)), before);
  EXPECT_LT(max_over_mean(rank_loads(replicated, load)), 1.05);
  EXPECT_GT(before, 1.2);
  const auto loads = rank_loads(replicated, load);
  EXPECT_NEAR(std::accumulate(loads.begin(), loads.end(), 0.0),
              static_cast<double>(std::accumulate(load.begin(), load.end(), std::uint64_t{0})), 1e-6);
}

// The heaviest expert gets the spare slots, and its replicas are on different ranks.
TEST(Placement, BalancerByHand) {
  const std::vector<std::uint64_t> load{90, 10, 10, 10};
  const Placement placement = place_balanced(load, 3, {2, 1, 8});
  EXPECT_EQ(placement.first_replica, (std::vector<std::int32_t>{0, 3, 4, 5, 6}));
  EXPECT_EQ((std::set<std::int32_t>(placement.replica_rank.begin(), placement.replica_rank.begin() + 3)),
            (std::set<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(rank_loads(placement, load), (std::vector<double>{40, 40, 40}));
}

TEST(Placement, BalancerKeepsGroupsOnANode) {
  const Placement placement = place_balanced(skewed_load(256), 32, {9, 8, 8});
  for (int group = 0; group < 8; ++group) {
    std::set<int> nodes;
    for (int i = placement.first_replica[group * 32]; i < placement.first_replica[group * 32 + 32]; ++i)
      nodes.insert(placement.replica_rank[i] / 8);
    EXPECT_EQ(nodes.size(), 1u) << group;
  }
}

TEST(Placement, BalancerRefusesTooFewSlotsAndTakesNoLoad) {
  EXPECT_THROW(place_balanced(skewed_load(256), 32, {7, 1, 8}), std::runtime_error);
  EXPECT_EQ(slots_of(place_balanced(std::vector<std::uint64_t>(16, 0), 4, {5, 1, 8})), std::vector<int>(4, 5));
}

TEST(Placement, TokensOfAReplicatedExpertTakeTurns) {
  const std::vector<std::uint64_t> load{90, 10, 10, 10};
  const std::vector<std::int32_t> topk(9, 0);  // nine tokens, all to expert 0 with its three replicas
  const VolumeFrame volume = count_volumes(topk, 1, place_balanced(load, 3, {2, 1, 8}), 8);
  EXPECT_EQ(received_tokens(volume, AllToAll::standard), (std::vector<std::uint64_t>{3, 3, 3}));
}

// Counts for a placement equal those of relabelled experts in the contiguous placement.
TEST(Placement, VolumesFollowThePlacement) {
  const auto topk = route_by_pattern({RoutingRule::uniform}, 640, 4, 32);
  const Placement placement = place_random(32, 8, 5);
  std::vector<std::int32_t> new_label(32), used(8);
  for (int e = 0; e < 32; ++e) new_label[e] = placement.replica_rank[e] * 4 + used[placement.replica_rank[e]]++;
  std::vector<std::int32_t> relabelled;
  for (const std::int32_t expert : topk) relabelled.push_back(new_label[expert]);
  const VolumeFrame a = count_volumes(topk, 4, placement, 4), b = count_volumes(relabelled, 4, 32, 8, 4);
  EXPECT_EQ(a.copies_RR, b.copies_RR);
  EXPECT_EQ(a.distinct_RR, b.distinct_RR);
  EXPECT_EQ(a.nodes_RN, b.nodes_RN);
}

TEST(Replication, PlansFromTheLoadOfTheStepsBefore) {
  LoadPlanner planner;
  for (std::uint32_t step = 0; step < 5; ++step) {
    EXPECT_EQ(planner.planned_of.empty(), step < 3) << step;
    planner.count_step(step, 3, std::vector<std::uint32_t>{step, 10});
  }
  EXPECT_EQ(planner.planned_of, (std::vector<std::uint64_t>{0 + 1 + 2, 30}));
  EXPECT_EQ(planner.load_since_plan, (std::vector<std::uint64_t>{3 + 4, 20}));
}

// Before, experts 0 and 1 are on rank 0, 2 and 3 on rank 1. After, expert 0 has replicas on both ranks, and experts 1
// and 2 have changed places.
TEST(Replication, WhatIsSent) {
  const Placement before = place_contiguous(4, 2);
  const Placement after{2, {0, 3, 4, 5, 6}, {0, 1, 1, 1, 0, 1}};
  EXPECT_EQ(experts_sent(before, before), 0);
  EXPECT_EQ(experts_sent(before, after), 3);  // 0 and 1 to rank 1, 2 to rank 0
  EXPECT_EQ(gradients_sent(before), 0);
  EXPECT_EQ(gradients_sent(after), 1);  // two replicas on one rank count once
}

}  // namespace
}  // namespace moescope
