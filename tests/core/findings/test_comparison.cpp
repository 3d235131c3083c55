#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "core/findings/comparison/comparison.h"
#include "core/findings/comparison/verdict_words.h"

namespace moescope {
namespace {

using Loss = std::function<double(std::int64_t)>;

std::shared_ptr<History> history(const char* name, std::int64_t steps, const Loss& loss, std::int64_t first = 0) {
  RunInfo info;
  info.name = name;
  auto made = std::make_shared<History>(info);
  for (std::int64_t step = first; step < first + steps; ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    frame->ce_loss = static_cast<float>(loss(step));
    made->append(std::move(frame));
  }
  return made;
}

double falling(std::int64_t step) {
  return 2 + 3 * std::exp(-static_cast<double>(step) / 100);
}

// Returns a falling loss with independent bell-shaped noise at every step.
Loss noisy(
    unsigned seed, double sigma, const Loss& shift = [](std::int64_t) { return 0.0; }) {
  auto rng = std::make_shared<std::mt19937>(seed);
  auto normal = std::make_shared<std::normal_distribution<double>>(0, sigma);
  return [rng, normal, shift](std::int64_t step) { return falling(step) + (*normal)(*rng) + shift(step); };
}

GapTrack gap_of(const HistoryPtr& a, const HistoryPtr& b) {
  GapTrack gap(a, b);
  gap.update();
  return gap;
}

TEST(Gap, IsBMinusAOnStepsThatBothTook) {
  const auto a = history("a", 10, [](std::int64_t step) { return 0.25 * static_cast<double>(step); });
  const auto b = history("b", 6, [](std::int64_t step) { return 0.5 * static_cast<double>(step); });
  const auto bins = gap_of(a, b).series(slice_edges({0, 7}, 4));
  ASSERT_EQ(bins.size(), 4u);
  EXPECT_EQ(bins[1].finite, 2u);
  EXPECT_FLOAT_EQ(bins[1].min, 0.5f);
  EXPECT_FLOAT_EQ(bins[1].max, 0.75f);
  EXPECT_FLOAT_EQ(bins[1].mean(), 0.625f);
  EXPECT_EQ(bins[3].finite + bins[3].missing + bins[3].non_finite, 0u);
}

// A history whose loss is that of the tokens read, with one line in every `interval` steps.
std::shared_ptr<History> log_by_tokens(std::int64_t tokens_per_step, std::int64_t steps, std::int64_t interval = 1) {
  RunInfo info;
  info.tokens_per_step = tokens_per_step;
  auto made = std::make_shared<History>(info);
  for (std::int64_t step = 0; step < steps; step += interval) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    frame->ce_loss = static_cast<float>(tokens_per_step * (step + 1));
    made->append(std::move(frame));
  }
  return made;
}

TEST(Gap, LogsWithOtherBatchesArePairedByTokens) {
  const auto a = log_by_tokens(100, 40);
  for (const std::int64_t batch : {25, 50, 200, 400}) {
    const auto b = log_by_tokens(batch, 4000 / batch);
    for (const GapTrack& gap : {gap_of(a, b), gap_of(b, a)}) {
      EXPECT_EQ(gap.count(), std::min<std::int64_t>(40, 4000 / batch)) << batch;
      EXPECT_TRUE(gap.identical(kNoLastStep)) << batch;
    }
  }
  EXPECT_EQ(gap_of(log_by_tokens(0, 40), log_by_tokens(200, 20)).count(), 20);  // unknown: paired by steps
  GapTrack by_steps(a, log_by_tokens(200, 30), Metric::ce_loss, false);
  by_steps.update();
  EXPECT_EQ(by_steps.count(), 30);
  EXPECT_FLOAT_EQ(by_steps.raw()[0], 100);
}

TEST(Gap, PairsByTokensAreAtMostOneAndAHalfStepsApart) {
  const auto a = log_by_tokens(100, 400, 10), b = log_by_tokens(73, 500, 7);
  const GapTrack gap = gap_of(a, b);
  EXPECT_GT(gap.count(), 4);
  for (std::int64_t place = 0; place < gap.count(); ++place) EXPECT_LE(std::fabs(gap.raw()[place]), 1.5f * 73);
}

TEST(Gap, AStepIsPairedWithTheOneOfTheOtherRunNearIt) {
  const auto large = log_by_tokens(400, 10), small = log_by_tokens(100, 40), sparse = log_by_tokens(100, 40, 9);
  EXPECT_EQ(paired_step(*large, 2, *small, true), 11);
  EXPECT_EQ(paired_step(*large, 2, *sparse, true), 9);
  EXPECT_EQ(paired_step(*large, 3, *sparse, true), std::nullopt);
  EXPECT_EQ(paired_step(*small, 11, *large, true), 2);
  EXPECT_EQ(paired_step(*large, 2, *small, false), 2);
  EXPECT_EQ(paired_step(*large, 2, *sparse, false), std::nullopt);
  const std::vector<HistoryPtr> with_unknown = {large, small, log_by_tokens(0, 40)};
  EXPECT_TRUE(are_paired_by_tokens(std::span(with_unknown).first(2)));
  EXPECT_FALSE(are_paired_by_tokens(with_unknown));
  EXPECT_FALSE(are_paired_by_tokens(std::vector<HistoryPtr>{small, sparse}));
}

TEST(Gap, PairsByTokensGrowWithTheLogs) {
  const auto a = log_by_tokens(100, 20), b = log_by_tokens(50, 20);
  GapTrack gap(a, b), reverse(b, a);
  for (GapTrack* track : {&gap, &reverse}) {
    track->update();
    EXPECT_EQ(track->count(), 10);
  }
  for (std::int64_t step = 20; step < 40; ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    frame->ce_loss = static_cast<float>(50 * (step + 1));
    b->append(std::move(frame));
    gap.update();
    reverse.update();
  }
  for (const GapTrack* track : {&gap, &reverse}) {
    EXPECT_EQ(track->count(), 20);
    EXPECT_TRUE(track->identical(kNoLastStep));
  }
}

TEST(Gap, StepsWithoutALossHaveNone) {
  const auto a = history("a", 4, falling);
  const auto b = history("b", 4, [](std::int64_t step) {
    return step == 2 ? std::numeric_limits<double>::infinity() : falling(step) + 1;
  });
  const auto bins = gap_of(a, b).series(slice_edges({0, 3}, 1));
  EXPECT_EQ(bins[0].finite, 3u);
  EXPECT_NEAR(bins[0].mean(), 1, 1e-6);
}

TEST(Gap, SmoothedDoesNotDependOnTheViewedRange) {
  const auto a = history("a", 300, noisy(1, 0.1)), b = history("b", 300, noisy(2, 0.1));
  const auto whole = gap_of(a, b).smoothed(slice_edges({0, 299}, 300));
  const auto part = gap_of(a, b).smoothed(slice_edges({200, 249}, 5));
  EXPECT_EQ(part[0], whole[209]);
  EXPECT_EQ(part[4], whole[249]);
  double sum = 0, weight = 0;  // the definition
  for (std::int64_t step = 0; step <= 120; ++step) {
    const double gap = static_cast<double>(b->value_at(Metric::ce_loss, kWholeRun, step)) -
                       static_cast<double>(a->value_at(Metric::ce_loss, kWholeRun, step));
    const double share = std::pow(kGapFactor, static_cast<double>(120 - step));
    sum += share * gap;
    weight += share;
  }
  EXPECT_NEAR(whole[120], sum / weight, 1e-6);
}

TEST(FirstDifference, IsTheFirstStepBeyondEpsilon) {
  const auto a = history("a", 100, falling);
  const auto b = history("b", 100, [](std::int64_t step) { return falling(step) + 1e-3 * static_cast<double>(step); });
  EXPECT_EQ(first_divergence_step(*a, *b, 0.0305), 31);
  EXPECT_EQ(first_divergence_step(*a, *b, 1), std::nullopt);
  EXPECT_EQ(first_divergence_step(*a, *a, 0), std::nullopt);
  const auto lost = history("lost", 100, [](std::int64_t step) { return step < 40 ? falling(step) : std::nan(""); });
  EXPECT_EQ(first_divergence_step(*a, *lost, 0.5), 40);
}

TEST(LoadDifference, IsInFairShares) {
  RouterFrame a, b;
  a.tokens_per_expert = {4, 4, 4, 4};
  b.tokens_per_expert = {8, 4, 2, 2};
  EXPECT_EQ(load_difference(a, b), (std::vector<float>{1, 0, -0.5f, -0.5f}));
  b.tokens_per_expert.push_back(0);
  EXPECT_TRUE(load_difference(a, b).empty());
}

TEST(Figures, AreMeansOverTheWindow) {
  const auto a = history("a", 20, [](std::int64_t step) { return static_cast<double>(step); });
  const auto b = history("b", 15, falling);
  const HistoryPtr both[] = {a, b};
  const StepRange window = last_common_steps(both, 4);
  EXPECT_EQ(window, (StepRange{11, 14}));
  const RunFigures row = run_figures(*a, window);
  EXPECT_EQ(row.name, "a");
  EXPECT_EQ(row.steps, 15);
  EXPECT_FLOAT_EQ(row.final_loss, 14);
  EXPECT_FLOAT_EQ(row.mean_loss, 12.5f);
  EXPECT_EQ(last_common_steps(both, 100), (StepRange{0, 14}));
  const HistoryPtr with_new[] = {a, std::make_shared<History>(RunInfo{})};
  EXPECT_TRUE(last_common_steps(with_new, 4).empty());
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

// Gaps that are updated step by step, also after a run is rewound, equal gaps that are computed from the beginning.
TEST(RunGaps, IncrementalEqualsFullRecompute) {
  auto a = history("A", 40, noisy(1, 0.1)), b = history("B", 30, noisy(2, 0.1)), n = history("N", 35, noisy(3, 0.1));
  const auto go_on = [](History& run, std::int64_t from, std::int64_t to, unsigned seed) {
    const Loss loss = noisy(seed, 0.1);
    for (std::int64_t step = from; step < to; ++step) {
      auto frame = std::make_shared<TelemetryFrame>();
      frame->step = step;
      frame->ce_loss = static_cast<float>(step == 77 ? std::nan("") : loss(step));
      run.append(std::move(frame));
    }
  };
  const std::vector<PairedRun> twins{{n, true}};
  RunGaps gaps;
  const auto check = [&](const char* when) {
    gaps.set(a, {{b, true}, {n, true}}, twins);
    const StepRange range{5, 150};
    const std::vector<std::int64_t> edges = slice_edges(range, 13);
    const GapTrack &updated = gaps.track(1), fresh = gap_of(a, b);
    EXPECT_TRUE(same_bits(updated.smoothed(edges), fresh.smoothed(edges))) << when;
    const auto kept_bins = updated.series(edges), bins = fresh.series(edges);
    for (std::size_t i = 0; i < bins.size(); ++i) EXPECT_EQ(kept_bins[i].sum, bins[i].sum) << when;
    EXPECT_EQ(verdict_sentence(gaps.conclusion(1)), verdict_sentence(conclude(a, {b, true}, twins))) << when;
  };
  check("at first");
  go_on(*b, 30, 120, 5);
  go_on(*a, 40, 100, 6);
  check("some on");
  go_on(*n, 35, 130, 7);
  check("the twin, too");
  go_on(*b, 60, 130, 8);  // rewound to 60
  go_on(*a, 100, 130, 9);
  check("another past");
}

}  // namespace
}  // namespace moescope
