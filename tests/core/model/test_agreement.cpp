// KL, k1, k3 and the share of probability ratios beyond 2, and the share of tokens that differ in any layer.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/model/routing_flips.h"
#include "core/numerics/statistics.h"

namespace moescope {
namespace {

std::vector<float> logs(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

// By hand: token 0 has p = (0.45, 0.275, 0.275), q = (1/4, 1/4, 1/2) and the next token 0. Token 1 has p = q. Token 2
// has the ratio 3, and is padding in the second part.
TEST(Agreement, IsOfTheDefinitions) {
  const std::vector<float> p = logs({0.45, 0.275, 0.275, 0.2, 0.2, 0.6, 0.6, 0.2, 0.2}),
                           q = logs({0.25, 0.25, 0.5, 0.2, 0.2, 0.6, 0.2, 0.2, 0.6});
  const std::vector<float> loss_p = {-std::log(0.45f), std::log(5.0f), -std::log(0.6f)},
                           loss_q = {std::log(4.0f), std::log(5.0f), std::log(5.0f)};
  const PredictedTokens run{{p.data(), 3, 3}, loss_p}, reference{{q.data(), 3, 3}, loss_q};
  const Agreement all = agreement(run, reference);
  const double kl0 = 0.25 * (std::log(0.25 / 0.45) + std::log(0.25 / 0.275)) + 0.5 * std::log(0.5 / 0.275),
               kl2 = 0.4 * std::log(3);
  EXPECT_NEAR(all.kl, (kl0 + kl2) / 3, 1e-6);
  EXPECT_NEAR(all.ratios.k1(), -(std::log(1.8) + std::log(3)) / 3, 1e-6);
  EXPECT_NEAR(all.ratios.k3(), ((1.8 - 1 - std::log(1.8)) + (3 - 1 - std::log(3))) / 3, 1e-6);
  EXPECT_NEAR(all.ratios.ratio_beyond_2(), 1.0 / 3, 1e-9) << "token 2 alone";
  const std::vector<std::uint8_t> padding = {0, 0, 1};
  const Agreement real = agreement(run, reference, padding);
  EXPECT_NEAR(real.kl, kl0 / 2, 1e-6);
  EXPECT_EQ(real.ratios.ratio_beyond_2(), 0);
  const Agreement itself = agreement(run, run);
  EXPECT_EQ(itself.kl, 0);
  EXPECT_EQ(itself.ratios.k3(), 0);
}

TEST(Agreement, OneLayerIsEnough) {
  const KeptRouting first{1, 4, 1, {0, 1, 2, 3}, {1, 1, 1, 1}}, second{2, 4, 1, {0, 1, 2, 3}, {1, 1, 1, 1}};
  KeptRouting first_other = first, second_other = second;
  first_other.ids_TK = {0, 1, 2, 0};
  second_other.ids_TK = {1, 1, 2, 0};
  EXPECT_FLOAT_EQ(flipped_in_any_layer({first, second}, {first_other, second_other}), 0.5f) << "tokens 0 and 3";
  EXPECT_FLOAT_EQ(flipped_in_any_layer({first, second}, {first, second}), 0);
  EXPECT_TRUE(is_missing(flipped_in_any_layer({first}, {second}))) << "another layer";
}

}  // namespace
}  // namespace moescope
