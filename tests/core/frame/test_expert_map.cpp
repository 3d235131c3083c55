// The map of experts against principal components computed by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "core/files/text/no_value.h"
#include "core/frame/expert_map.h"

using namespace moescope;

// The rows are (1, 0), (0, 1) and (1, 1) / sqrt(2). Their coordinates along (1, -1) / sqrt(2) are 1/sqrt(2), -1/sqrt(2)
// and 0; those along (1, 1) / sqrt(2) are 1/sqrt(2), 1/sqrt(2) and 1, minus their mean (sqrt(2) + 1) / 3.
TEST(ExpertMap, IsThatOfTheHandMadeTable) {
  const std::uint32_t counts[] = {8, 0, 5,  //
                                  0, 2, 5};
  const ExpertMap map = expert_map(counts, 3);
  const double root_of_half = std::sqrt(0.5), mean = (2 * root_of_half + 1) / 3;
  const double x[] = {root_of_half, -root_of_half, 0}, y[] = {root_of_half - mean, root_of_half - mean, 1 - mean};
  for (std::size_t e = 0; e < 3; ++e) {
    EXPECT_NEAR(map.x_E[e], x[e], 1e-6) << e;
    EXPECT_NEAR(map.y_E[e], y[e], 1e-6) << e;
  }
  const double x_squares = 1, y_squares = y[0] * y[0] + y[1] * y[1] + y[2] * y[2];
  EXPECT_NEAR(map.x_share, x_squares / (x_squares + y_squares), 1e-6);
  EXPECT_NEAR(map.y_share, y_squares / (x_squares + y_squares), 1e-6);
}

// Three experts with tokens of different kinds are the corners of a triangle with sides sqrt(2).
TEST(ExpertMap, KeepsDistancesWhereThePlaneHoldsThem) {
  const std::uint32_t counts[] = {3, 0, 0,  //
                                  0, 1, 0,  //
                                  0, 0, 9};
  const ExpertMap map = expert_map(counts, 3);
  for (const auto& [a, b] : {std::pair<std::size_t, std::size_t>{0, 1}, {1, 2}, {2, 0}})
    EXPECT_NEAR(std::hypot(map.x_E[a] - map.x_E[b], map.y_E[a] - map.y_E[b]), std::sqrt(2), 1e-6);
  EXPECT_NEAR(map.x_share + map.y_share, 1, 1e-6);
}

TEST(ExpertMap, AnExpertWithoutTokensHasNoPlace) {
  const std::uint32_t counts[] = {3, 0, 3,  //
                                  2, 0, 2};
  const ExpertMap map = expert_map(counts, 3);
  EXPECT_TRUE(is_missing(map.x_E[1]) && is_missing(map.y_E[1]));
  for (const std::size_t e : {0, 2}) EXPECT_EQ(map.x_E[e], 0) << "both take the same";
  EXPECT_EQ(map.x_share, 0);
  const std::uint32_t none[] = {0, 0};
  EXPECT_TRUE(is_missing(expert_map(none, 2).x_E[0]));
}

// Only the shares of the counts matter, not their sizes, and the farthest expert is on the positive side.
TEST(ExpertMap, DependsOnSharesAloneAndHasAFixedSign) {
  const std::uint32_t counts[] = {1, 1, 1, 40,  //
                                  4, 5, 6, 3,   //
                                  7, 7, 8, 2};
  std::vector<std::uint32_t> larger;
  for (const std::uint32_t n : counts) larger.push_back(n * 1000);
  const ExpertMap map = expert_map(counts, 4), larger_map = expert_map(larger, 4);
  for (std::size_t e = 0; e < 4; ++e) EXPECT_NEAR(map.x_E[e], larger_map.x_E[e], 1e-6);
  EXPECT_GT(map.x_E[3], 0);
  EXPECT_GT(map.x_share, 0.8f);
}
