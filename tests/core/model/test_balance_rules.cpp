// SMEBU and moving quantiles against their formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "core/model/moe/bias_rules.h"
#include "core/model/moe/router.h"

namespace moescope {
namespace {

RouterConfig smebu() {
  RouterConfig c;
  c.balance_rule = BalanceRule::smebu;
  c.bias_update_rate = 0.1;
  c.bias_soft_clamp = 2;
  c.bias_momentum = 0.5;
  return c;
}

// By hand: loads 4, 3, 1 and 8 are below their mean by 0, 1/4, 3/4 and -1 of it.
TEST(Smebu, IsTheFormula) {
  std::vector<double> bias(4), momentum;
  update_by_smebu<double>(smebu(), std::vector<std::uint32_t>{4, 3, 1, 8}, bias, momentum);
  const double d[] = {0, 0.1 * std::tanh(0.5), 0.1 * std::tanh(1.5), -0.1 * std::tanh(2.0)};
  const double mean = (d[0] + d[1] + d[2] + d[3]) / 4;
  for (std::size_t e = 0; e < 4; ++e) EXPECT_NEAR(bias[e], 0.5 * (d[e] - mean), 1e-15) << e;
  EXPECT_NEAR(bias[3], -0.0532, 5e-5);
  const std::vector<double> first = bias;
  update_by_smebu<double>(smebu(), std::vector<std::uint32_t>{4, 4, 4, 4}, bias, momentum);
  for (std::size_t e = 0; e < 4; ++e) EXPECT_NEAR(bias[e], 1.5 * first[e], 1e-15) << "half of the step goes on";
}

TEST(Smebu, WithoutCentringAndMomentumEachExpertIsByItself) {
  RouterConfig c = smebu();
  c.bias_centring = false;
  c.bias_momentum = 0;
  std::vector<double> bias(4, 1.0), momentum;
  update_by_smebu<double>(c, std::vector<std::uint32_t>{4, 3, 1, 8}, bias, momentum);
  EXPECT_EQ(bias[0], 1);
  EXPECT_NEAR(bias[1], 1 + 0.1 * std::tanh(0.5), 1e-15);
  c.bias_soft_clamp = 1000;  // tanh becomes the sign
  update_by_smebu<double>(c, std::vector<std::uint32_t>{4, 3, 1, 8}, bias, momentum);
  EXPECT_NEAR(bias[1], 1.1 + 0.1 * std::tanh(0.5), 1e-15);
}

TEST(Smebu, AKilledExpertKeepsItsBiasAndIsInNoMean) {
  const std::vector<std::uint8_t> killed = {0, 0, 1};
  std::vector<double> bias = {0, 0, 7}, momentum;
  update_by_smebu<double>(smebu(), std::vector<std::uint32_t>{3, 1, 0}, bias, momentum, killed);
  EXPECT_EQ(bias[2], 7);
  EXPECT_EQ(momentum[2], 0);
  EXPECT_NEAR(bias[1], 0.05 * std::tanh(1.0), 1e-15);
  EXPECT_NEAR(bias[0] + bias[1], 0, 1e-15);
}

// Returns the middle of the first bin up to which the weighted scores of tokens 0 to t add up to `part` of their total.
double quantile_by_definition(const std::vector<double>& scores, std::size_t t, double part) {
  double total = 0;
  for (std::size_t i = 0; i <= t; ++i) total += std::pow(kMovingDecay, static_cast<double>(t - i));
  for (int bin = 0;; ++bin) {
    double below = 0;
    for (std::size_t i = 0; i <= t; ++i)
      if (static_cast<int>(std::floor(scores[i] * kMovingBins)) <= bin)
        below += std::pow(kMovingDecay, static_cast<double>(t - i));
    if (below >= part * total - 1e-9) return (bin + 0.5) / kMovingBins;
  }
}

TEST(MovingQuantile, IsTheFormulaInEverySequence) {
  constexpr std::size_t kSequences = 2, kLength = 300, kExperts = 5;
  RouterConfig c;
  c.balance_rule = BalanceRule::quantile_sequence;
  c.top_k = 2;
  c.sequence_strength = 0.7;
  std::mt19937 rng(5);
  std::vector<double> scores(kSequences * kLength * kExperts), levelled_scores;
  for (double& score : scores) score = std::uniform_real_distribution<double>(0, 1)(rng);
  const BatchPart part(kSequences, kLength);
  level_sequences<double>(c, part, {scores.data(), kSequences * kLength, kExperts}, {}, levelled_scores);
  for (std::size_t s = 0; s < kSequences; ++s)
    for (std::size_t e = 0; e < kExperts; ++e) {
      std::vector<double> expert_scores;
      for (std::size_t t = 0; t < kLength; ++t) {
        const std::size_t at = (s * kLength + t) * kExperts + e;
        expert_scores.push_back(scores[at]);
        if (t % 23 != 0) continue;
        EXPECT_NEAR(levelled_scores[at], scores[at] - 0.7 * quantile_by_definition(expert_scores, t, 1 - 2.0 / 5),
                    1e-12)
            << s << ' ' << t << ' ' << e;
      }
    }
  const std::vector<std::uint8_t> killed = {0, 0, 1, 0, 0};
  std::vector<double> four_scores;
  level_sequences<double>(c, part, {scores.data(), kSequences * kLength, kExperts}, killed, four_scores);
  std::vector<double> first;
  for (std::size_t t = 0; t < 100; ++t) first.push_back(scores[t * kExperts]);
  EXPECT_NEAR(four_scores[99 * kExperts], first[99] - 0.7 * quantile_by_definition(first, 99, 0.5), 1e-12);
}

// Two sequences, each with tokens of one kind: kind A scores experts 0 and 1 high, kind B experts 2 and 3.
TEST(MovingQuantile, ASequenceUsesAllExperts) {
  constexpr int kLength = 400;
  RouterConfig c;
  c.top_k = 1;
  const std::vector<double> gate = {2, 1.8, -2, -1.8};  // dim 1: h = 1 or -1
  std::mt19937 rng(1);
  std::normal_distribution<double> noise(1, 0.3);
  std::vector<double> h;
  for (int t = 0; t < 2 * kLength; ++t) h.push_back(noise(rng) * (t < kLength ? 1 : -1));
  const std::vector<double> bias(4);
  const auto fewest_of_first = [&](BalanceRule rule, double strength) {
    c.balance_rule = rule;
    c.sequence_strength = strength;
    const BatchPart part(2, kLength);
    Arena<double> arena;
    RouterActivations<double> a;
    a.plan(arena, part, 4, 1);
    arena.commit();
    router_forward<double>(c, part, {{gate.data(), 4, 1}, {h.data(), 2 * kLength, 1}, bias}, a);
    std::vector<int> load(4);
    for (int t = 0; t < kLength; ++t) ++load[static_cast<std::size_t>(a.ids[static_cast<std::size_t>(t)])];
    return *std::ranges::min_element(load);
  };
  EXPECT_EQ(fewest_of_first(BalanceRule::quantile_batch, 1), 0);
  EXPECT_EQ(fewest_of_first(BalanceRule::quantile_sequence, 0), 0);
  EXPECT_GT(fewest_of_first(BalanceRule::quantile_sequence, 1), kLength / 10);
}

// Later tokens and other sequences do not matter.
TEST(MovingQuantile, LooksBackOnly) {
  RouterConfig c;
  c.balance_rule = BalanceRule::quantile_sequence;
  std::mt19937 rng(2);
  std::vector<float> scores(2 * 50 * 8), before, after;
  for (float& score : scores) score = std::uniform_real_distribution<float>(0, 1)(rng);
  const BatchPart part(2, 50);
  level_sequences<float>(c, part, {scores.data(), 100, 8}, {}, before);
  for (std::size_t i = 30 * 8; i < 50 * 8; ++i) scores[i] = 0;
  level_sequences<float>(c, part, {scores.data(), 100, 8}, {}, after);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i >= 30 * 8 && i < 50 * 8) continue;
    ASSERT_EQ(before[i], after[i]) << i;
  }
  EXPECT_NE(before[40 * 8], after[40 * 8]);
}

}  // namespace
}  // namespace moescope
