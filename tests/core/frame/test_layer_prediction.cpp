#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "core/frame/frame.h"
#include "core/frame/specialisation.h"

namespace moescope {
namespace {

using Rows = std::vector<std::uint16_t>;

float predicted_share(const Rows& before, const Rows& chosen, int top_k, int n_experts) {
  LayerPrediction prediction(n_experts, top_k, 2048);
  const float first = prediction.share(before, chosen), second = prediction.share(before, chosen);
  EXPECT_TRUE(first == second || (is_missing(first) && is_missing(second))) << "nothing is left of the call before";
  return first;
}

TEST(PredictedShare, IsOneWhereTheLayerBeforeDecides) {
  Rows before, chosen;
  for (std::uint16_t t = 0; t < 64; ++t)
    for (const int k : {0, 1}) {
      const auto expert = static_cast<std::uint16_t>((t / 2 + 3 * k) % 8);
      before.push_back(expert);
      chosen.push_back(static_cast<std::uint16_t>((expert * 5 + 1) % 8));
    }
  EXPECT_FLOAT_EQ(predicted_share(before, chosen, 2, 8), 1);
}

// Tokens 0, 2 and 4 are counted: expert 0 is followed twice by expert 1 and once by 2; expert 3 does not occur.
TEST(PredictedShare, FollowsTheCountsOfEverySecondToken) {
  const Rows before = {0, 0, 0, 0, 0, 3}, chosen = {1, 1, 1, 2, 2, 0};
  // The prediction for token 1 is 1, which is right; for token 3 it is 1, but 2 was chosen. For token 5 nothing was
  // counted, so that the lowest number is predicted, which is right.
  EXPECT_FLOAT_EQ(predicted_share(before, chosen, 1, 4), 2.0f / 3);
}

TEST(PredictedShare, IsChanceWhereLayersChooseIndependently) {
  std::mt19937 random(3);
  constexpr int kExperts = 16, kTokens = 20000;
  Rows before, chosen;
  for (int t = 0; t < kTokens; ++t)
    for (Rows* rows : {&before, &chosen}) {
      const auto first = static_cast<std::uint16_t>(random() % kExperts);
      rows->push_back(first);
      rows->push_back(static_cast<std::uint16_t>((first + 1 + random() % (kExperts - 1)) % kExperts));
    }
  const double share = 2.0 / kExperts, error = std::sqrt(share * (1 - share) / (2 * 2048));
  EXPECT_NEAR(static_cast<double>(predicted_share(before, chosen, 2, kExperts)), share, 5 * error);
}

TEST(PredictedShare, IsMissingWithoutTokensToCompare) {
  EXPECT_TRUE(is_missing(predicted_share(Rows{0}, Rows{0}, 1, 4)));
  EXPECT_TRUE(is_missing(predicted_share(Rows{0, 1, 2, 3}, Rows{0, 1}, 1, 4)));
  EXPECT_TRUE(is_missing(predicted_share(Rows{0, 1, 2, 3}, Rows{0, 1, 2, 3}, 1, 5000)));
}

}  // namespace
}  // namespace moescope
