#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/frame/margin_counts.h"
#include "core/model/routing_flips.h"

namespace moescope {
namespace {

KeptRouting layer_of(std::vector<std::uint16_t> ids, std::vector<float> margins) {
  return {.layer = 1, .n_experts = 8, .top_k = 2, .ids_TK = std::move(ids), .margin_T = std::move(margins)};
}

TEST(RoutingFlips, CountsTokensWhoseSetDiffersByTheReferencesMargin) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto a = layer_of({0, 1, 2, 3, 4, 5, 6, 7, 0, 7}, {0.3f, 1e-9f, 2.5f, 0.25f, nan});
  const auto b = layer_of({0, 1, 2, 4, 4, 5, 5, 7, 1, 7}, {9, 9, 9, 9, 9});
  const auto flips = routing_flips({a}, {b});
  ASSERT_EQ(flips.size(), 1u);
  EXPECT_FLOAT_EQ(flips[0].flip_rate, 3.0f / 5);
  EXPECT_FLOAT_EQ(flips[0].overlap, 7.0f / 10);
  HalfOctaves tokens{}, flipped{};
  tokens[0] = 1;   // 1e-9 is below the first edge
  tokens[36] = 2;  // 0.25 = edge(36) and 0.3
  tokens[39] = 1;  // 2.5 is above the last
  flipped[0] = 1;
  flipped[36] = 1;
  EXPECT_EQ(flips[0].margin_tokens, tokens);
  EXPECT_EQ(flips[0].margin_flipped, flipped);
}

TEST(RoutingFlips, EdgesAreTwoToAnOctave) {
  EXPECT_EQ(half_octave_edge(40), 1);
  EXPECT_EQ(half_octave_edge(36), 0.25f);
  EXPECT_FLOAT_EQ(half_octave_edge(37), 0.25f * 1.41421356f);
}

TEST(RoutingFlips, MedianLiesWithinItsBin) {
  HalfOctaves counts{};
  EXPECT_TRUE(std::isnan(half_octave_median(counts)));
  counts[36] = 4;  // from 1/4 to the root of 2 times that
  EXPECT_NEAR(half_octave_median(counts), 0.25 * (1 + 0.41421356 / 2), 1e-6);
  counts[20] = 2;  // half of all are two in the lower bin and one of the four
  EXPECT_NEAR(half_octave_median(counts), 0.25 * (1 + 0.41421356 / 4), 1e-6);
  counts[39] = 20;
  EXPECT_EQ(half_octave_median(counts), half_octave_edge(39));
  HalfOctaves lowest{};
  lowest[0] = 2;  // also holds all smaller values, from 0
  EXPECT_NEAR(half_octave_median(lowest), half_octave_edge(1) / 2, 1e-9);
}

TEST(RoutingFlips, LayersThatCannotBeComparedAreLeftOut) {
  const auto a = layer_of({0, 1}, {0.5f});
  auto other_layer = a, other_experts = a;
  other_layer.layer = 2;
  other_experts.n_experts = 16;
  const KeptRouting other_k{.layer = 1, .n_experts = 8, .top_k = 1, .ids_TK = {0}, .margin_T = {0.5f}};
  EXPECT_TRUE(routing_flips({a}, {other_layer}).empty());
  EXPECT_TRUE(routing_flips({a}, {other_experts}).empty());
  EXPECT_TRUE(routing_flips({a}, {other_k}).empty());
}

TEST(RoutingArchive, KeepsWithinItsBudgetAndStaysSpreadOverThePast) {
  const auto routing = [] { return std::vector<KeptRouting>{layer_of({0, 1, 2, 3}, {0.5f, 0.5f})}; };
  RoutingArchive archive(4000);
  for (std::int64_t step = 0; step < 5000; step += 10) {
    archive.put(step, routing());
    ASSERT_LE(archive.bytes(), 4000u);
    ASSERT_NE(archive.find(step), nullptr);
  }
  EXPECT_NE(archive.find(0), nullptr);
  int first_half = 0, second_half = 0;
  for (std::int64_t step = 0; step < 5000; step += 10)
    if (archive.find(step)) ++(step < 2500 ? first_half : second_half);
  EXPECT_GT(first_half, 3);
  EXPECT_GT(second_half, 3);
  EXPECT_EQ(archive.find(5), nullptr);
  archive.put(100, routing());
  EXPECT_EQ(archive.find(4990), nullptr) << "a rewind forgets what followed";
}

}  // namespace
}  // namespace moescope
