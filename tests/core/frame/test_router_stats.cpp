#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "core/frame/frame.h"
#include "core/frame/router_stats.h"

namespace moescope {
namespace {

using Counts = std::vector<std::uint32_t>;

// Returns the spread of the load (CV).
float spread(const Counts& counts) {
  RouterFrame router;
  router.tokens_per_expert = counts;
  fill_derived_figures(router, LoadWindow(to_int(counts.size()), 1));
  return router.cv;
}

TEST(MeanMaxVio, IsTheMeanOfThePartsOwn) {
  // Two parts of two tokens, top 2 of 4: the first part uses experts 0 and 1 (MaxVio 1), the second all (MaxVio 0).
  const std::vector<std::int32_t> ids = {0, 1, 0, 1, 0, 1, 2, 3};
  EXPECT_FLOAT_EQ(mean_max_vio({ids, 2, 4}, 2), 0.5f);
  EXPECT_FLOAT_EQ(mean_max_vio({ids, 2, 4}, 1), 0.5f);  // loads 3, 3, 1, 1; mean 2
  const std::vector<std::uint8_t> padding = {1, 1, 0, 0};
  EXPECT_FLOAT_EQ(mean_max_vio({ids, 2, 4, padding}, 2), 0) << "the first part counts for nothing";
  const std::vector<std::uint8_t> all = {1, 1, 1, 1};
  EXPECT_TRUE(is_missing(mean_max_vio({ids, 2, 4, all}, 2)));
}

TEST(RouterStats, WorkedExample) {
  const Counts n = {6, 2, 0, 8};  // 16 slots, mean 4
  EXPECT_FLOAT_EQ(utilisation(n, 0), 1.5f);
  EXPECT_FLOAT_EQ(utilisation(n, 2), 0.0f);
  EXPECT_FLOAT_EQ(max_vio(n), 1.0f);
  EXPECT_FLOAT_EQ(spread(n), std::sqrt((4 + 4 + 16 + 16) / 4.0f) / 4);
  const double h = -(6 / 16.0 * std::log(6 / 16.0) + 2 / 16.0 * std::log(2 / 16.0) + 0.5 * std::log(0.5));
  EXPECT_NEAR(entropy_norm(n), h / std::log(4.0), 1e-6);
  EXPECT_FLOAT_EQ(padding_fraction(n, 8), (2 + 6 + 0 + 0) / 16.0f);
  EXPECT_FLOAT_EQ(padding_fraction(n, 1), 0.0f);
  EXPECT_FLOAT_EQ(dropped_fraction(n, 1.0), (2 + 4) / 16.0f);  // capacity 4
  EXPECT_FLOAT_EQ(dropped_fraction(n, 1.2), (1 + 3) / 16.0f);  // capacity ceil(4.8) = 5
  EXPECT_FLOAT_EQ(dropped_fraction(n, 2.0), 0.0f);
  EXPECT_FLOAT_EQ(filler_fraction(n, 1.0), (2 + 4) / 16.0f);
  EXPECT_FLOAT_EQ(filler_fraction(n, 1.2), (3 + 5) / 16.0f);
  EXPECT_FLOAT_EQ(filler_fraction(n, 2.0), (2 + 6 + 8) / 16.0f);
}

TEST(RouterStats, Percentiles) {
  EXPECT_FLOAT_EQ(percentile({3, 1, 2}, 0.5), 2);
  EXPECT_FLOAT_EQ(percentile({4, 1, 3, 2}, 0.5), 2.5f);
  EXPECT_FLOAT_EQ(percentile({4, 1, 3, 2}, 0.9), 3.7f);  // numpy.percentile([1, 2, 3, 4], 90)
  EXPECT_FLOAT_EQ(percentile({4, 1, 3, 2}, 0), 1);
  EXPECT_FLOAT_EQ(percentile({4, 1, 3, 2}, 1), 4);
  EXPECT_FLOAT_EQ(percentile({kNoValue, 5, std::sqrt(-1.0f)}, 0.9), 5);
  EXPECT_TRUE(is_missing(percentile({}, 0.5)));
}

TEST(RouterStats, UniformAndCollapsed) {
  const Counts uniform(64, 32);
  EXPECT_EQ(max_vio(uniform), 0.0f);
  EXPECT_EQ(spread(uniform), 0.0f);
  EXPECT_NEAR(entropy_norm(uniform), 1.0f, 1e-6);
  EXPECT_EQ(padding_fraction(uniform, 32), 0.0f);
  Counts collapsed(64, 0);
  collapsed[5] = 2048;
  EXPECT_FLOAT_EQ(max_vio(collapsed), 63.0f);
  EXPECT_FLOAT_EQ(spread(collapsed), std::sqrt(63.0f));
  EXPECT_EQ(entropy_norm(collapsed), 0.0f);
}

TEST(RouterStats, NothingRoutedHasNoValue) {
  const Counts none(8, 0);
  const std::vector<std::uint64_t> none64(8, 0);
  for (const float v :
       {utilisation(none, 3), max_vio(none), spread(none), entropy_norm(none), padding_fraction(none, 32),
        dropped_fraction(none, 1.0), dead_fraction(none64), dropped_fraction(Counts{1, 2}, 0.0),
        filler_fraction(none, 1.0), filler_fraction(Counts{1, 2}, 0.0), score_entropy(std::vector<float>(4, 0.0f))}) {
    EXPECT_TRUE(is_missing(v));
  }
}

TEST(RouterStats, ScoreEntropy) {
  EXPECT_NEAR(score_entropy(std::vector<float>(16, 0.5f)), std::log(16.0f), 1e-6);
  EXPECT_NEAR(score_entropy(std::vector<float>{0, 1, 0}), 0, 1e-6);
  const std::vector<float> p = {0.2f, 0.3f, 0.5f};
  EXPECT_NEAR(score_entropy(p), -(0.2 * std::log(0.2) + 0.3 * std::log(0.3) + 0.5 * std::log(0.5)), 1e-6);
}

TEST(RouterStats, WindowExcludesOlderSteps) {
  std::mt19937 rng(3);
  LoadWindow window(6, 5);
  std::vector<Counts> pushed;
  for (int step = 0; step < 40; ++step) {
    Counts n(6);
    for (auto& count : n) count = rng() % 3 ? 0 : rng() % 100;
    window.push(n);
    pushed.push_back(n);
    std::vector<std::uint64_t> expected(6);
    for (int s = std::max(0, step - 4); s <= step; ++s) {
      for (int e = 0; e < 6; ++e) expected[e] += pushed[s][e];
    }
    ASSERT_EQ(window.steps(), std::min(step + 1, 5));
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), window.counts().begin()));
    const auto dead = std::count(expected.begin(), expected.end(), std::uint64_t{0});
    if (dead < 6) {
      ASSERT_FLOAT_EQ(dead_fraction(window.counts()), dead / 6.0f);
    }
  }
}

// The load of a router that picks K of E experts for each token, all sets equally likely.
Counts chosen_by_chance(std::mt19937& rng, int tokens, int top_k, int n_experts) {
  std::vector<int> ids(n_experts);
  std::iota(ids.begin(), ids.end(), 0);
  Counts counts(n_experts);
  for (int t = 0; t < tokens; ++t) {
    for (int k = 0; k < top_k; ++k) {
      std::swap(ids[k], ids[k + rng() % (n_experts - k)]);
      ++counts[ids[k]];
    }
  }
  return counts;
}

double simulated_floor(std::mt19937& rng, int tokens, int top_k, int n_experts, int trials) {
  double sum = 0;
  for (int trial = 0; trial < trials; ++trial) sum += max_vio(chosen_by_chance(rng, tokens, top_k, n_experts));
  return sum / trials;
}

TEST(RouterStats, NoiseFloorAgreesWithSimulation) {
  // 64 slots per expert: the value of a balanced router of ordinary size.
  EXPECT_NEAR(max_vio_noise_floor(512, 2, 16), 0.22, 0.015);
  // With 64 slots per expert, the value rises from 0.17 for 8 experts to 0.4 for 512.
  EXPECT_NEAR(max_vio_noise_floor(256, 2, 8), 0.17, 0.015);
  EXPECT_NEAR(max_vio_noise_floor(683, 6, 64), 0.3, 0.015);
  EXPECT_NEAR(max_vio_noise_floor(3277, 10, 512), 0.4, 0.015);
  std::mt19937 rng(11);
  struct Case {
    int tokens, top_k, n_experts, trials;
  };
  for (const Case c : {Case{512, 2, 16, 2000},
                       {1024, 2, 16, 1000},
                       {64, 1, 8, 8000},
                       {200, 1, 2, 8000},
                       {128, 8, 256, 1500},
                       {2048, 4, 32, 300},
                       {100, 6, 8, 4000}}) {
    const double simulated = simulated_floor(rng, c.tokens, c.top_k, c.n_experts, c.trials);
    EXPECT_NEAR(max_vio_noise_floor(c.tokens, c.top_k, c.n_experts) / simulated, 1, 0.025)
        << c.tokens << " tokens, top " << c.top_k << " of " << c.n_experts << ": " << simulated;
  }
}

TEST(RouterStats, NoiseFloorAtTheEdges) {
  EXPECT_EQ(max_vio_noise_floor(100, 8, 8), 0.0f);
  EXPECT_TRUE(is_missing(max_vio_noise_floor(0, 2, 8)));
  EXPECT_TRUE(is_missing(max_vio_noise_floor(10, 9, 8)));
  // One token and top 1: all slots go to one expert, and MaxVio is E - 1.
  EXPECT_NEAR(max_vio_noise_floor(1, 1, 2), 1.0, 0.3);
  EXPECT_GT(max_vio_noise_floor(1000, 8, 256), max_vio_noise_floor(100000, 8, 256));
  EXPECT_LT(max_vio_noise_floor(std::int64_t{1} << 40, 8, 256), 1e-4f);
}

TEST(RouterStats, SpreadAndEntropyByChanceAgreeWithSimulation) {
  EXPECT_NEAR(utilisation_noise(1024, 2, 16), 0.0827, 1e-4);  // sqrt((1 - 1/8) / 128)
  EXPECT_TRUE(is_missing(utilisation_noise(0, 2, 16)));
  EXPECT_EQ(utilisation_noise(100, 8, 8), 0.0f);
  EXPECT_NEAR(std::exp(load_entropy_by_chance(1, 6, 64)), 6, 1e-9);  // one token: its K experts
  EXPECT_NEAR(std::exp(load_entropy_by_chance(6, 6, 64)), 26.643, 1e-3);
  EXPECT_NEAR(load_entropy_by_chance(1 << 24, 8, 256), std::log(256.0), 1e-5);
  EXPECT_TRUE(std::isnan(load_entropy_by_chance(0, 6, 64)));
  std::mt19937 rng(5);
  struct Case {
    int tokens, top_k, n_experts;
  };
  for (const Case c : {Case{50, 6, 64}, {8, 8, 256}, {400, 8, 256}, {64, 1, 8}}) {
    double entropy = 0, squares = 0;
    constexpr int kTrials = 400;
    for (int trial = 0; trial < kTrials; ++trial) {
      const Counts counts = chosen_by_chance(rng, c.tokens, c.top_k, c.n_experts);
      entropy += static_cast<double>(entropy_norm(counts)) * std::log(c.n_experts) / kTrials;
      const auto cv = static_cast<double>(spread(counts));
      squares += cv * cv / kTrials;
    }
    EXPECT_NEAR(load_entropy_by_chance(c.tokens, c.top_k, c.n_experts), entropy, 0.005) << c.tokens;
    EXPECT_NEAR(utilisation_noise(c.tokens, c.top_k, c.n_experts) / std::sqrt(squares), 1, 0.03) << c.tokens;
  }
}

TEST(FillDerivedFigures, ComputesMissingFiguresOnly) {
  LoadWindow window(4, 2);
  window.push(Counts{8, 0, 0, 0});
  RouterFrame router;
  router.tokens_per_expert = {2, 2, 2, 2};
  router.cv = 7;
  window.push(router.tokens_per_expert);
  fill_derived_figures(router, window);
  EXPECT_EQ(router.max_vio, 0);
  EXPECT_EQ(router.cv, 7);
  EXPECT_EQ(router.entropy_norm, 1);
  EXPECT_EQ(router.padding_fraction, 15);  // 4 x 30 rows of zeros for 8 tokens
  EXPECT_EQ(router.max_vio_window, 1.5f);  // an expert has 10 of 16 slots, the mean is 4
  EXPECT_EQ(router.dead_fraction, 0);
}

}  // namespace
}  // namespace moescope
