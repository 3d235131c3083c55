// Values that are stored in BF16: how they are rounded, and what that does to weights, counts and biases.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "core/model/learner.h"
#include "core/model/moe/bias_rules.h"
#include "core/model/optimizer.h"
#include "core/numerics/bf16_rounding.h"
#include "tests/support/small_run.h"

namespace moescope {
namespace {

bool has_bf16(float value) {
  return (std::bit_cast<std::uint32_t>(value) & 0xFFFF) == 0;
}

bool all_have_bf16(std::span<const float> arena) {
  return std::ranges::all_of(arena, has_bf16);
}

// Returns the learner after `steps` steps.
std::unique_ptr<Learner<float>> trained(const RunConfig& config, int steps) {
  const auto data = open_dataset(config.data, config.seed);
  auto learner = std::make_unique<Learner<float>>(config);
  PhaseClock clock;
  for (int i = 0; i < steps; ++i) learner->step(data->batch(i), false, clock);
  return learner;
}

TEST(StochasticBf16, IsTheUpperNeighbourAsOftenAsTheDistanceSays) {
  constexpr float kLower = 1.0f, kUnit = 0x1p-7f, kBetween = kLower + 0.25f * kUnit;
  int upper = 0;
  for (std::uint32_t draw = 0; draw < 0x10000; ++draw) {
    const float rounded = bf16_rounded_stochastically(kBetween, draw);
    ASSERT_TRUE(rounded == kLower || rounded == kLower + kUnit);
    upper += rounded > kLower;
  }
  EXPECT_EQ(upper, 0x4000) << "of all draws, a quarter";
  for (const float exact : {1.0f, -0.5f, 0.0f, std::numeric_limits<float>::infinity()})
    EXPECT_EQ(bf16_rounded_stochastically(exact, 0xFFFF), exact);
  EXPECT_TRUE(std::isnan(bf16_rounded_stochastically(std::numeric_limits<float>::quiet_NaN(), 0xFFFF)));
  EXPECT_EQ(bf16_rounded_stochastically(-kBetween, 0xFFFF), -(kLower + kUnit)) << "by magnitude";
}

TEST(StoredState, ValuesAreRepresentableInTheFormat) {
  RunConfig config = small_run();
  const auto exact = trained(config, 3);
  EXPECT_FALSE(all_have_bf16(exact->parameters.weights));
  config.optimizer.moment1_format = StoredFormat::bf16;
  const auto first = trained(config, 3);
  EXPECT_TRUE(all_have_bf16(first->parameters.moment1));
  EXPECT_FALSE(all_have_bf16(first->parameters.moment2));
  EXPECT_FALSE(all_have_bf16(first->parameters.weights));
  config.optimizer.moment2_format = config.optimizer.master_format = StoredFormat::bf16;
  for (const bool stochastic : {false, true}) {
    config.optimizer.update_stochastic = stochastic;
    for (const OptimizerName name : {OptimizerName::adamw, OptimizerName::muon}) {
      config.optimizer.name = name;
      const auto all = trained(config, 3);
      for (const std::span<const float> arena :
           {all->parameters.weights, all->parameters.moment1, all->parameters.moment2})
        EXPECT_TRUE(all_have_bf16(arena));
    }
  }
}

// Returns the share of the weights that differ from their initial values after `steps` steps.
double moved_share(const RunConfig& config, int steps) {
  const Learner<float> start(config);
  const auto end = trained(config, steps);
  std::size_t moved = 0, all = 0;
  for (const ParameterRun& run : start.parameters.runs())
    for (std::size_t i = run.offset; i < run.offset + run.count; ++i, ++all)
      moved += start.parameters.weights[i] != end->parameters.weights[i];
  return static_cast<double>(moved) / static_cast<double>(all);
}

// Updates of 1e-5 are far below half a BF16 unit of weights around 0.02. Rounding to nearest loses them; stochastic
// rounding applies some of them.
TEST(MasterWeights, InBf16LoseSmallUpdatesUnlessRoundedByChance) {
  RunConfig config = small_run();
  config.optimizer.lr = config.optimizer.lr_min = 1e-5;
  config.optimizer.warmup_steps = 0;
  EXPECT_GT(moved_share(config, 10), 0.95);
  config.optimizer.master_format = StoredFormat::bf16;
  const double nearest = moved_share(config, 10);
  config.optimizer.update_stochastic = true;
  const double stochastic = moved_share(config, 10);
  EXPECT_LT(nearest, 0.25);
  EXPECT_GT(stochastic, 2 * nearest);
}

TEST(MasterWeights, InBf16ArePerturbedByABf16Unit) {
  RunConfig config = small_run();
  config.optimizer.master_format = StoredFormat::bf16;
  const Learner<float> plain(config);
  config.perturbation = 1;
  const Learner<float> moved(config);
  for (const ParameterRun& run : plain.parameters.runs())
    for (std::size_t i = run.offset; i < run.offset + run.count; ++i) {
      const auto a = std::bit_cast<std::int32_t>(plain.parameters.weights[i]),
                 b = std::bit_cast<std::int32_t>(moved.parameters.weights[i]);
      ASSERT_EQ(b & 0xFFFF, 0);
      ASSERT_LE(std::abs(a - b), 2 << 16) << "a unit from the perturbed FP32 weight's neighbour";
    }
}

// Megatron-LM, pull request 7081: 64 ranks hold 608 to 676 tokens of an expert, 40,840 together. The sum in BF16
// depends on the order of the ranks, and is above the mean of 40,960 or below it.
TEST(CountsInBf16, DependOnTheOrderOfTheSum) {
  std::vector<std::uint32_t> counts;
  for (std::uint32_t i = 0; i < 64; ++i) counts.push_back(608 + i * 37 % 69);
  for (std::size_t i = 0; std::accumulate(counts.begin(), counts.end(), 0u) != 40840; i = (i + 1) % counts.size()) {
    const bool low = std::accumulate(counts.begin(), counts.end(), 0u) < 40840;
    if (low ? counts[i] < 676 : counts[i] > 608) counts[i] += low ? 1 : -1;
  }
  std::set<float> sums;
  for (int order = 0; order < 64; ++order) {
    std::rotate(counts.begin(), counts.begin() + 1, counts.end());
    sums.insert(sum_in_bf16(counts, 1).front());
  }
  for (const float sum : sums) EXPECT_EQ(std::fmod(sum, 256), 0) << "BF16's numbers near 40,000";
  EXPECT_GT(sums.size(), 1u);
  std::set<double> directions;
  for (const float sum : sums) directions.insert(directions_in_bf16(std::vector<float>{sum, 81920 - sum}).front());
  EXPECT_GT(directions.size(), 1u) << "the same counts move the bias both ways";
}

TEST(CountsInBf16, AreExactUpTo256) {
  const std::vector<std::uint32_t> counts = {100, 50, 3, 0, 156, 70, 200, 1};
  EXPECT_EQ(sum_in_bf16(counts, 4), (std::vector<float>{256, 120, 203, 1}));
  EXPECT_EQ(sum_in_bf16(std::vector<std::uint32_t>{256, 1}, 1).front(), 256) << "the next number is 258";
  EXPECT_EQ(directions_in_bf16(std::vector<float>{9, 4, 2, 1}), (std::vector<double>{-1, 0, 1, 1}));
  const std::uint8_t killed[] = {0, 0, 0, 1};
  EXPECT_EQ(directions_in_bf16(std::vector<float>{6, 4, 2, 0}, killed), (std::vector<double>{-1, 0, 1, 0}));
}

TEST(CountsInBf16, MoveOtherBiasesThanExactOnes) {
  RunConfig config = small_run();
  config.data.batch = 256;  // many small counts: a sum in BF16 stops growing
  config.data.seq = 8;
  const auto exact = trained(config, 4);
  config.router.count_format = StoredFormat::bf16;
  const auto rounded = trained(config, 4);
  EXPECT_NE(exact->expert_bias, rounded->expert_bias);
}

// sglang, pull request 37133: 238 biases between 6.817 and 7.063 become 8 different numbers in BF16.
TEST(BiasInBf16, LeavesFewValuesFarFromZero) {
  std::set<float> values, stored;
  for (int i = 0; i < 238; ++i) {
    float value = 6.817f + 0.246f * static_cast<float>(i) / 237;
    values.insert(value);
    round_to_bf16(std::span(&value, 1));
    stored.insert(value);
  }
  EXPECT_EQ(values.size(), 238u);
  EXPECT_GE(stored.size(), 8u);
  EXPECT_LE(stored.size(), 9u);
}

TEST(BiasInBf16, IsRoundedAfterEveryUpdateAndPin) {
  RunConfig config = small_run();
  config.router.initial_bias = "*:0=6.9,*:1=6.9,*:2=6.9,*:3=6.9,*:4=6.9,*:5=6.9,*:6=6.9,*:7=6.9";
  config.router.pinned_bias = "1:0=7.001";
  config.router.bias_format = StoredFormat::bf16;
  const auto far = trained(config, 5);
  const std::vector<float> start(8, 6.90625f);
  EXPECT_EQ(far->expert_bias[1], start) << "an update of 0.001 is far below half of 0.03125";
  EXPECT_EQ(far->expert_bias[0][0], 7.0f);
  config.router.bias_format = StoredFormat::fp32;
  EXPECT_NE(trained(config, 5)->expert_bias[1], std::vector<float>(8, 6.9f));
}

}  // namespace
}  // namespace moescope
