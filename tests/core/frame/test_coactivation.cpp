#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <random>

#include "core/frame/expert_map.h"
#include "tests/support/processor_time.h"

namespace moescope {
namespace {

// Counts how often experts are chosen together. Most tokens choose `top_k` experts of one team, e % teams for expert e.
std::vector<std::uint32_t> teams_of(int experts, int teams, int top_k, int tokens, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<std::uint32_t> together(static_cast<std::size_t>(experts) * experts);
  for (int t = 0; t < tokens; ++t) {
    const int team = static_cast<int>(rng() % teams);
    std::vector<int> chosen;
    while (static_cast<int>(chosen.size()) < top_k) {
      int e = static_cast<int>(rng() % experts);
      if (rng() % 8 != 0) e = e / teams * teams + team;
      if (e < experts && std::ranges::find(chosen, e) == chosen.end()) chosen.push_back(e);
    }
    for (const int i : chosen)
      for (const int j : chosen) ++together[static_cast<std::size_t>(i) * experts + j];
  }
  return together;
}

TEST(Coactivation, OrderBringsTeamsTogether) {
  for (const auto& [experts, teams] : {std::pair{16, 4}, {64, 8}, {30, 3}}) {
    const auto order = coactivation_order(teams_of(experts, teams, 4, 20000, 1), experts);
    int changes = 0;
    for (std::size_t i = 1; i < order.size(); ++i) changes += order[i] % teams != order[i - 1] % teams;
    EXPECT_EQ(changes, teams - 1) << experts << " experts";
  }
}

TEST(Coactivation, OrderIsAPermutationWithTheUnusedLast) {
  auto together = teams_of(12, 3, 2, 3000, 2);
  for (const int dead : {4, 9})
    for (int j = 0; j < 12; ++j) together[dead * 12 + j] = together[j * 12 + dead] = 0;
  auto order = coactivation_order(together, 12);
  EXPECT_EQ(order[10], 4);
  EXPECT_EQ(order[11], 9);
  std::ranges::sort(order);
  for (int e = 0; e < 12; ++e) EXPECT_EQ(order[static_cast<std::size_t>(e)], e);
}

TEST(Coactivation, DegenerateCountsHaveAnOrder) {
  EXPECT_TRUE(coactivation_order({}, 0).empty());
  EXPECT_EQ(coactivation_order(std::vector<std::uint32_t>{5}, 1), (std::vector<int>{0}));
  EXPECT_EQ(coactivation_order(std::vector<std::uint32_t>(9, 0), 3), (std::vector<int>{0, 1, 2}));
  const auto equal = coactivation_order(std::vector<std::uint32_t>(64 * 64, 7), 64);  // all pairs are equal
  EXPECT_EQ(equal, coactivation_order(std::vector<std::uint32_t>(64 * 64, 7), 64));
  EXPECT_EQ(equal.size(), 64u);
}

TEST(Coactivation, SimilarExpertsAreNeighbours) {
  std::vector<float> similarity(16, -0.5f);
  const auto set = [&](int i, int j, float value) {
    similarity[static_cast<std::size_t>(i * 4 + j)] = similarity[static_cast<std::size_t>(j * 4 + i)] = value;
  };
  set(0, 2, 0.9f);
  set(1, 3, 0.8f);
  const auto order = similarity_order(similarity, 4);
  const auto place = [&](int expert) { return std::ranges::find(order, expert) - order.begin(); };
  EXPECT_EQ(std::abs(place(0) - place(2)), 1);
  EXPECT_EQ(std::abs(place(1) - place(3)), 1);
  const std::vector<float> none(9, std::nanf("")), opposite(9, -1.0f);
  EXPECT_EQ(similarity_order(none, 3).size(), 3u);
  EXPECT_EQ(similarity_order(opposite, 3).size(), 3u);
}

// The order of 60 layers must take less than the time of one frame of the screen.
TEST(Coactivation, SixtyLayersOf256ExpertsAreQuick) {
  const auto together = teams_of(256, 16, 8, 20000, 3);
  const double begin = processor_seconds();
  for (int layer = 0; layer < 60; ++layer) ASSERT_EQ(coactivation_order(together, 256).size(), 256u);
  EXPECT_LT(processor_seconds() - begin, 2) << "a hundred times the aim: only a fall back to O(E^3) fails this";
}

}  // namespace
}  // namespace moescope
