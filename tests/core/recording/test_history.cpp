#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <thread>

#include "core/recording/history/history.h"
#include "core/recording/history/load_rows.h"
#include "core/recording/history/scalar_columns.h"
#include "tests/support/processor_time.h"
#include "tests/support/sample_frames.h"

namespace moescope {
namespace {

using FramePtr = std::shared_ptr<const TelemetryFrame>;

FramePtr frame_at_step(std::int64_t step, std::mt19937& rng, SampleShape shape = {}) {
  auto frame = std::make_shared<TelemetryFrame>(sample_frame(step, shape, rng));
  return frame;
}

TEST(History, EmptyHasNothing) {
  const History history(sample_info({}));
  EXPECT_TRUE(history.steps().empty());
  EXPECT_EQ(history.sequence(), 0u);
  EXPECT_EQ(history.frame_at(5), nullptr);
  EXPECT_EQ(history.quant_frame_at(5), nullptr);
  EXPECT_TRUE(is_missing(history.value_at(Metric::ce_loss, kWholeRun, 3)));
  EXPECT_EQ(history.series(Metric::ce_loss, kWholeRun, {0, 9}, 3)[1].finite, 0u);
  EXPECT_EQ(history.utilisation(1, {0, 9}, 4).size(), 4u * 8);
  EXPECT_TRUE(std::isnan(history.utilisation(1, {0, 9}, 4)[31]));
  EXPECT_EQ(history.kept_every(), 1);
}

// A layer takes memory for the frames that name it alone: a file of 1 MB can name 4,096 layers in 15,000 steps.
TEST(History, ALayerHasRowsForItsOwnFramesOnly) {
  constexpr int kLayers = 1000;
  RunInfo info;
  for (int layer = 0; layer < kLayers; ++layer) info.moe_layers.push_back(layer);
  ScalarColumns columns(info, std::size_t{1} << 30);
  for (int step = 0; step < 3 * kLayers; ++step) {
    TelemetryFrame frame;
    frame.step = step;
    frame.routers.resize(1);
    frame.routers[0].layer = step % kLayers;
    frame.routers[0].cv = static_cast<float>(step);
    columns.append(frame);
  }
  EXPECT_LT(columns.bytes(), std::size_t{2} << 20);
  const auto last = [&](std::int64_t step) { return columns.value_at(Metric::cv, 7, step); };
  EXPECT_TRUE(is_missing(last(6)));
  EXPECT_EQ(last(7), 7.0f);
  EXPECT_EQ(last(1006), 7.0f);
  EXPECT_EQ(last(INT64_MAX), 2007.0f);
  EXPECT_TRUE(columns.has_rows(7, {900, 1007}));
  EXPECT_FALSE(columns.has_rows(7, {900, 1006}));
  std::vector<float> values(3, kNoValue);
  const std::int64_t steps[] = {6, 1007, 1008};
  columns.values_at(Metric::cv, 7, steps, values);
  EXPECT_EQ(values[1], 1007.0f);
  EXPECT_TRUE(is_missing(values[0]) && is_missing(values[2]));
  const std::int64_t edges[] = {0, 2000, 3000};
  std::vector<PyramidBin> bins(2);
  columns.series(Metric::cv, 7, edges, bins);
  EXPECT_EQ(bins[0].finite, 2u);
  EXPECT_EQ(bins[0].missing, 1998u);
  EXPECT_EQ(bins[1].missing, 999u);
  columns.truncate(2007);
  EXPECT_EQ(last(INT64_MAX), 1007.0f);
}

TEST(History, GivesFramesBackBitForBit) {
  std::mt19937 rng(1);
  History history(sample_info({}));
  std::vector<FramePtr> frames;
  for (int step = 0; step < 300; ++step) {
    frames.push_back(frame_at_step(step, rng));
    history.append(frames.back());
    ASSERT_EQ(history.sequence(), step + 1u);
  }
  EXPECT_EQ(history.steps(), (StepRange{0, 299}));
  for (const int step : {299, 0, 17, 150, 17}) {
    expect_equal(*history.frame_at(step), *frames[step]);
    expect_equal(*history.quant_frame_at(step), *frames[step]);
  }
  expect_equal(*history.frame_at(100000), *frames[299]);
  EXPECT_EQ(history.frame_at(-1), nullptr);
  EXPECT_LT(history.array_bytes(),
            300 * (sizeof(QuantFrame) * 12 + sizeof(FlipFrame) * 4 + sizeof(RouterRoundingFrame) * 10) * 3 / 10)
      << "packed to less than 30 %";
}

TEST(History, CadencesAreIndependent) {
  std::mt19937 rng(2);
  History history(sample_info({}));
  for (int step = 0; step < 100; ++step) {
    TelemetryFrame frame = sample_frame(step, {}, rng);
    if (step % 4) frame.routers.clear();
    if (step % 10 != 1) frame.quants.clear();
    history.append(std::make_shared<TelemetryFrame>(frame));
  }
  EXPECT_EQ(history.frame_at(99)->step, 96);
  EXPECT_EQ(history.frame_at(3)->step, 0);
  EXPECT_EQ(history.quant_frame_at(99)->step, 91);
  EXPECT_EQ(history.quant_frame_at(0), nullptr);
  EXPECT_EQ(history.value_at(Metric::cv, 1, 99), history.value_at(Metric::cv, 1, 96));
  const PyramidBin all = history.series(Metric::max_vio, 2, {0, 99}, 1)[0];
  EXPECT_EQ(all.finite, 25u);
  EXPECT_EQ(all.missing, 75u);
}

// Compares every bin of every metric with a plain loop, with gaps between steps and ranges that reach past both ends.
TEST(History, SeriesAgreeWithBruteForce) {
  std::mt19937 rng(3);
  History history(sample_info({}));
  std::vector<std::pair<std::int64_t, float>> losses;
  std::int64_t step = 40;
  for (int i = 0; i < 3000; ++i) {
    TelemetryFrame frame;
    frame.step = step;
    frame.ce_loss = i % 50 == 7 ? std::sqrt(-1.0f) : std::uniform_real_distribution<float>(0, 5)(rng);
    losses.emplace_back(step, frame.ce_loss);
    history.append(std::make_shared<TelemetryFrame>(frame));
    step += i < 1500 ? 1 : 1 + rng() % 5;
  }
  for (int query = 0; query < 40; ++query) {
    StepRange range{static_cast<std::int64_t>(rng() % 6000) - 500, 0};
    range.last = range.first + rng() % 6000;
    const int bins = 1 + rng() % 400;
    const auto series = history.series(Metric::ce_loss, kWholeRun, range, bins);
    std::vector<PyramidBin> expected(bins);
    for (const auto& [s, v] : losses) {
      if (s < range.first || s > range.last) continue;
      int bin = static_cast<int>((s - range.first) * bins / range.size());
      while (bin + 1 < bins && range.first + (bin + 1) * range.size() / bins <= s) ++bin;
      while (range.first + bin * range.size() / bins > s) --bin;
      expected[bin].add(v);
    }
    for (int b = 0; b < bins; ++b) {
      ASSERT_EQ(series[b].finite, expected[b].finite) << b << " of " << bins;
      ASSERT_EQ(series[b].non_finite, expected[b].non_finite);
      if (expected[b].finite) {
        ASSERT_EQ(series[b].min, expected[b].min);
        ASSERT_EQ(series[b].max, expected[b].max);
        ASSERT_NEAR(series[b].mean(), expected[b].mean(), 1e-5);
      }
    }
  }
}

TEST(History, RewindReplacesLaterSteps) {
  std::mt19937 rng(5);
  History history(sample_info({}));
  std::vector<FramePtr> frames;
  for (int step = 0; step < 200; ++step) history.append(frames.emplace_back(frame_at_step(step, rng)));
  history.append(Marker{0, 50, "note", "kept"});
  history.append(Marker{0, 150, "note", "of the other past"});
  history.append(Marker{0, 70, "event", "rewound to 70"});
  frames.resize(70);
  for (int step = 70; step < 90; ++step) history.append(frames.emplace_back(frame_at_step(step, rng)));
  EXPECT_EQ(history.steps(), (StepRange{0, 89}));
  ASSERT_EQ(history.markers().size(), 2u);
  EXPECT_EQ(history.markers()[1].text, "rewound to 70");
  for (const int step : {0, 69, 70, 75, 89}) {
    expect_equal(*history.frame_at(step), *frames[step]);
    EXPECT_EQ(history.value_at(Metric::ce_loss, kWholeRun, step), frames[step]->ce_loss);
    EXPECT_EQ(history.value_at(Metric::margin, 2, step), frames[step]->routers[1].margin);
    const auto image = history.utilisation(2, {step, step}, 1);
    const auto& counts = frames[step]->routers[1].tokens_per_expert;
    double slots = 0;
    for (const auto n : counts) slots += n;
    for (int e = 0; e < 8; ++e) ASSERT_NEAR(image[e], counts[e] * 8 / slots, 2e-4 * 8);
  }
}

// Takes well under a second; a search through all notes for each note took minutes.
TEST(History, ManyNotesAreWrittenAndErased) {
  History history(sample_info({}));
  const double begin = processor_seconds();
  constexpr int kNotes = 100'000;
  for (const char* text : {"a note", ""})
    for (int step = 0; step < kNotes; ++step) {
      if (step == 0 && *text == 0) {
        EXPECT_EQ(std::ssize(history.markers()), kNotes);
      }
      history.append(Marker{0, step, kNoteKind, text});
    }
  EXPECT_TRUE(history.markers().empty());
  EXPECT_LT(processor_seconds() - begin, 20);
}

TEST(History, WholeRunIsTheMeanOverLayers) {
  std::mt19937 rng(6);
  History history(sample_info({}));
  TelemetryFrame frame = sample_frame(0, {}, rng);
  frame.routers[0].cv = 1;
  frame.routers[1].cv = 2;
  frame.routers[0].margin = kNoValue;
  frame.routers[1].margin = 0.25f;
  frame.routers[0].dropped_fraction = frame.routers[1].dropped_fraction = kNoValue;
  frame.phase_ms = {};
  frame.phase_ms[2] = 1.5f;
  frame.phase_ms[5] = 2;
  history.append(std::make_shared<TelemetryFrame>(frame));
  EXPECT_EQ(history.value_at(Metric::cv, kWholeRun, 0), 1.5f);
  EXPECT_EQ(history.value_at(Metric::margin, kWholeRun, 0), 0.25f);
  EXPECT_TRUE(is_missing(history.value_at(Metric::dropped_fraction, kWholeRun, 0)));
  EXPECT_EQ(history.value_at(Metric::step_ms, kWholeRun, 0), 3.5f);
}

TEST(History, UtilisationKeepsTheFarthestFromFair) {
  RunInfo info = sample_info({});
  info.n_experts = 4;
  info.moe_layers = {3};
  History history(info);
  const auto add = [&](std::int64_t step, std::vector<std::uint32_t> counts) {
    TelemetryFrame frame;
    frame.step = step;
    frame.routers.resize(1);
    frame.routers[0].layer = 3;
    frame.routers[0].tokens_per_expert = std::move(counts);
    history.append(std::make_shared<TelemetryFrame>(frame));
  };
  add(0, {100, 100, 100, 100});
  add(1, {400, 0, 0, 0});
  add(2, {150, 50, 100, 100});
  add(3, {50, 250, 0, 100});
  const auto one = history.utilisation(3, {0, 0}, 1);
  EXPECT_EQ(one, (std::vector<float>{1, 1, 1, 1}));
  const auto late = history.utilisation(3, {2, 3}, 1);
  EXPECT_NEAR(late[0], 0.5f, 1e-6);  // 0.5 is one octave from 1, 1.5 only 0.58
  EXPECT_NEAR(late[1], 2.5f, 1e-3);
  EXPECT_NEAR(late[3], 1.0f, 1e-6);
  const auto all = history.utilisation(3, {0, 3}, 1);
  EXPECT_EQ(all[1], 0.0f) << "dead is farthest";
  EXPECT_EQ(all[0], 4.0f);
  const auto wide = history.utilisation(3, {0, 7}, 8);
  EXPECT_TRUE(std::isnan(wide[4 * 4]));
  EXPECT_EQ(wide[1 * 4], 4.0f);
}

// Thinning keeps means: compares with the mean over every step, also at a hundredth of the memory that all steps need.
TEST(History, MeanUtilisationIsTheMeanOfAllSteps) {
  for (const std::size_t budget : {std::size_t{100} << 20, std::size_t{60'000}}) {
    RunInfo info = sample_info({});
    info.n_experts = 4;
    info.moe_layers = {3};
    History history(info, budget);
    std::mt19937 rng(12);
    std::vector<std::array<double, 4>> expected;
    for (int step = 0; step < 4096; ++step) {
      TelemetryFrame frame;
      frame.step = step;
      frame.routers.resize(1);
      frame.routers[0].layer = 3;
      auto& counts = frame.routers[0].tokens_per_expert;
      counts = {100 + static_cast<std::uint32_t>(rng() % 200), 50, static_cast<std::uint32_t>(rng() % 400), 300};
      const double slots = std::accumulate(counts.begin(), counts.end(), 0.0);
      auto& u = expected.emplace_back();
      for (int e = 0; e < 4; ++e) u[e] = counts[e] * 4 / slots;
      history.append(std::make_shared<TelemetryFrame>(frame));
    }
    const auto means = history.utilisation(3, {0, 4095}, 4, Summary::mean);
    const auto farthest = history.utilisation(3, {0, 4095}, 4);
    for (int bin = 0; bin < 4; ++bin) {
      for (int e = 0; e < 4; ++e) {
        double mean = 0, low = 1e9, high = 0;
        for (int step = 1024 * bin; step < 1024 * (bin + 1); ++step) {
          mean += expected[step][e] / 1024;
          low = std::min(low, expected[step][e]);
          high = std::max(high, expected[step][e]);
        }
        ASSERT_NEAR(means[bin * 4 + e] / mean, 1, 2e-3) << budget << " " << bin << " " << e;
        const auto one = history.expert_utilisation(3, e, {0, 4095}, 4)[bin];
        ASSERT_NEAR(one.mean() / mean, 1, 2e-3);
        const double wild = low > 0 && high * low < 1 ? low : high;
        ASSERT_NEAR(farthest[bin * 4 + e], low == 0 ? 0 : wild, 2e-3);
        EXPECT_EQ(one.finite, 1024u);
        if (budget > 1'000'000) {
          EXPECT_NEAR(one.min, low, 2e-3);
          EXPECT_NEAR(one.max, high, 2e-3);
        }
      }
    }
  }
}

TEST(History, ExpertBiasTakesTheNewestOfEachBin) {
  std::mt19937 rng(13);
  History history(sample_info({}));
  std::vector<FramePtr> frames;
  for (int step = 0; step < 64; ++step) history.append(frames.emplace_back(frame_at_step(step, rng)));
  const auto image = history.expert_bias(2, {0, 79}, 10);
  ASSERT_EQ(image.size(), 80u);
  for (int b = 0; b < 8; ++b) {
    const auto& expected = frames[b * 8 + 7]->routers[1].expert_bias;
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), image.begin() + b * 8)) << b;
  }
  EXPECT_TRUE(std::all_of(image.begin() + 64, image.end(), [](float b) { return std::isnan(b); }));
  const auto none = history.expert_bias(77, {0, 63}, 2);
  EXPECT_TRUE(std::all_of(none.begin(), none.end(), [](float b) { return std::isnan(b); }));
}

TEST(History, PercentilesOverLayers) {
  std::mt19937 rng(14);
  const SampleShape shape{.moe_layers = 11};
  History history(sample_info(shape));
  TelemetryFrame frame = sample_frame(0, shape, rng);
  for (int i = 0; i < 11; ++i) {
    frame.routers[i].max_vio = static_cast<float>((i * 7) % 11);  // 0 to 10, shuffled
    frame.routers[i].max_vio_window = kNoValue;
  }
  frame.routers[3].max_vio_window = 2;
  history.append(std::make_shared<TelemetryFrame>(frame));
  EXPECT_EQ(history.value_at(Metric::max_vio_p50, kWholeRun, 0), 5);
  EXPECT_EQ(history.value_at(Metric::max_vio_p90, kWholeRun, 0), 9);
  EXPECT_EQ(history.value_at(Metric::max_vio_max, kWholeRun, 0), 10);
  EXPECT_EQ(history.value_at(Metric::max_vio_window_p50, kWholeRun, 0), 2);
  EXPECT_EQ(history.value_at(Metric::max_vio_window_max, kWholeRun, 0), 2);
}

// Counts of one layer, [steps][experts].
using Loads = std::vector<std::vector<std::uint32_t>>;
void append_loads(LoadRows& rows, const Loads& loads) {
  for (std::size_t step = 0; step < loads.size(); ++step) {
    RouterFrame router;
    router.layer = 1;
    router.tokens_per_expert = loads[step];
    rows.append(static_cast<std::int64_t>(step), std::span(&router, 1));
  }
}

double utilisation_of(const std::vector<std::uint32_t>& counts, std::size_t expert) {
  const auto sum = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  return static_cast<double>(counts[expert]) * static_cast<double>(counts.size()) / static_cast<double>(sum);
}

TEST(History, LoadsOfAStepAreExactUpTo65535TokensOfAnExpert) {
  std::mt19937 rng(21);
  Loads loads;
  for (int step = 0; step < 100; ++step) loads.push_back(sample_counts(8, step % 2 ? 65535 : 1u << 30, rng));
  loads.push_back({0, 1, 65535, 7, 0, 0, 0, 0});
  loads.push_back({0, 1, 1u << 31, 7, 0, 0, 0, 0});
  LoadRows rows(8);
  append_loads(rows, loads);
  for (std::size_t step = 0; step < loads.size(); ++step) {
    const auto at = static_cast<std::int64_t>(step);
    const std::int64_t edges[] = {at, at + 1};
    const auto farthest = rows.farthest(1, edges), means = rows.means(1, edges);
    const std::uint32_t largest_load = std::ranges::max(loads[step]);
    const double largest = utilisation_of(
        loads[step], static_cast<std::size_t>(std::ranges::max_element(loads[step]) - loads[step].begin()));
    for (std::size_t e = 0; e < 8; ++e) {
      const double u = utilisation_of(loads[step], e);
      ASSERT_NEAR(static_cast<double>(farthest[e]), u, largest_load <= 65535 ? 2e-7 * u : largest / 65535) << step;
      ASSERT_EQ(farthest[e], means[e]);
      ASSERT_EQ(farthest[e] == 0, loads[step][e] == 0);
    }
  }
}

TEST(History, ThinnedLoadsAreTheFarthestAndTheMeanOfTheirSteps) {
  constexpr std::size_t kExperts = 512, kSteps = 1700;
  std::mt19937 rng(22);
  Loads loads;
  for (std::size_t step = 0; step < kSteps; ++step) {
    auto& counts = loads.emplace_back(sample_counts(kExperts, 1u << (step % 16), rng));
    if (rng() % 4 == 0)
      for (std::uint32_t& n : counts) n = rng() % 8 == 0 ? 0 : n;
  }
  LoadRows rows(kExperts);
  append_loads(rows, loads);
  for (int merged = 0; merged < 7; ++merged) ASSERT_TRUE(rows.thin());  // each merges rows that were not merged before
  std::vector<std::int64_t> edges;
  for (std::int64_t step = 0; step <= static_cast<std::int64_t>(kSteps); step += 2) edges.push_back(step);
  const auto means = rows.means(1, edges), farthest = rows.farthest(1, edges);
  const auto distance = [](double u) { return u < 1 ? 1 / u : u; };
  for (std::size_t bin = 0; bin + 1 < edges.size(); ++bin) {
    const auto &a = loads[2 * bin], &b = loads[2 * bin + 1];
    for (std::size_t e = 0; e < kExperts; ++e) {
      const auto mean = static_cast<double>(means[bin * kExperts + e]);
      const auto far = static_cast<double>(farthest[bin * kExperts + e]);
      const double u_a = utilisation_of(a, e), u_b = utilisation_of(b, e);
      ASSERT_NEAR(mean, (u_a + u_b) / 2, 1e-3) << bin;
      ASSERT_NEAR(far, distance(u_a) > distance(u_b) ? u_a : u_b, 1e-3) << bin << ' ' << u_a << ", " << u_b;
    }
  }
}

// A log that names one of 4,096 layers in each step takes memory for the named layers alone.
TEST(History, LayersThatAStepDoesNotNameTakeNoMemory) {
  constexpr int kLayers = 4096, kSteps = 6000;
  LoadRows rows(64);
  std::vector<RouterFrame> one(1);
  one[0].tokens_per_expert.assign(64, 1);
  one[0].tokens_per_expert[5] = 0;
  for (int step = 0; step < kSteps; ++step) {
    one[0].layer = step % kLayers;
    rows.append(step, one);
  }
  EXPECT_LT(rows.bytes(), std::size_t{16} << 20);  // rows for all layers would take 3 GB
  const auto drawn = [&](int layer, std::int64_t first, std::int64_t end) {
    return rows.means(layer, std::vector<std::int64_t>{first, end});
  };
  EXPECT_EQ(drawn(1000, 1000, 1001)[5], 0.0f);
  EXPECT_TRUE(std::isnan(drawn(1000, 1001, 1002)[5]));
  EXPECT_FLOAT_EQ(drawn(1000, 0, kSteps)[6], 64.0f / 63);
  rows.truncate(5990);
  EXPECT_TRUE(std::isnan(drawn(5995 % kLayers, 5990, kSteps)[6]));
  EXPECT_FALSE(std::isnan(drawn(5985 % kLayers, 5980, kSteps)[6]));
}

TEST(History, WaterfallTakesTheNewestOfEachBin) {
  std::mt19937 rng(8);
  History history(sample_info({}));
  std::vector<FramePtr> frames;
  for (int step = 0; step < 64; ++step) history.append(frames.emplace_back(frame_at_step(step, rng)));
  const QuantFrame& probe = frames[0]->quants[3];
  const auto rows = history.scale_waterfall(probe, {0, 79}, 10);
  ASSERT_EQ(rows.size(), 2560u);
  for (int b = 0; b < 8; ++b) {
    const auto& expected = frames[b * 8 + 7]->quants[3].e8m0_blocks;
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), rows.begin() + b * 256)) << b;
  }
  EXPECT_TRUE(std::all_of(rows.begin() + 8 * 256, rows.end(), [](std::uint32_t n) { return n == 0; }));
  OperandPlace nowhere = probe;
  nowhere.layer = 77;
  const auto none = history.scale_waterfall(nowhere, {0, 63}, 4);
  EXPECT_TRUE(std::all_of(none.begin(), none.end(), [](std::uint32_t n) { return n == 0; }));
}

// Arrays beyond their budget are thinned: scalars lose nothing, old steps stay evenly covered, the newest half is
// whole.
TEST(History, ThinsArraysToTheBudget) {
  std::mt19937 rng(9);
  const std::size_t budget = 400'000;
  History history(sample_info({}), budget);
  float largest = 0;
  std::int64_t largest_step = 0;
  for (int step = 0; step < 4000; ++step) {
    TelemetryFrame frame = sample_frame(step, {}, rng);
    if (step == 1234) frame.routers[0].tokens_per_expert = {1000, 0, 1, 1, 1, 1, 1, 1};
    if (frame.routers[0].max_vio > largest) {
      largest = frame.routers[0].max_vio;
      largest_step = step;
    }
    history.append(std::make_shared<TelemetryFrame>(frame));
    ASSERT_LE(history.array_bytes(), budget) << step;
  }
  EXPECT_GE(history.array_bytes(), budget / 2);
  EXPECT_GT(history.kept_every(), 1);
  EXPECT_EQ(history.series(Metric::ce_loss, kWholeRun, {0, 3999}, 1)[0].finite, 4000u);
  EXPECT_EQ(history.value_at(Metric::max_vio, 1, largest_step), largest);
  std::int64_t widest = 0;
  for (int step = 0; step < 4000; ++step) {
    widest = std::max(widest, step - history.frame_at(step)->step);
    widest = std::max(widest, step - history.quant_frame_at(step)->step);
  }
  EXPECT_LT(widest, 4 * history.kept_every());
  EXPECT_EQ(history.frame_at(3990)->step, 3990);
  // Steps are merged, not dropped: the one step in which an expert got no tokens is still visible.
  EXPECT_EQ(history.utilisation(1, {0, 3999}, 10)[3 * 8 + 1], 0.0f);
}

// Ten times the scalars that the budget holds: old values are kept in slices, new values for every step.
TEST(History, ScalarsKeepToTheirBudget) {
  const std::size_t budget = 10'000'000;
  History history(sample_info({}), 1000, budget);
  for (int step = 0; step < 200'000; ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = 5 + 3 * step;
    frame->ce_loss = static_cast<float>(step);
    frame->routers.resize(2);
    for (int i = 0; i < 2; ++i) {
      frame->routers[i].layer = i + 1;
      frame->routers[i].max_vio = static_cast<float>(i + step % 100);
    }
    history.append(std::move(frame));
    if (step % 5000 == 4999) {
      ASSERT_LE(history.scalar_bytes(), budget * 5 / 4) << step;
    }
  }
  EXPECT_EQ(history.steps(), (StepRange{5, 5 + 3 * 199'999}));
  const auto all = history.series(Metric::max_vio, 2, history.steps(), 1)[0];
  EXPECT_EQ(all.finite, 200'000u);
  EXPECT_EQ(all.max, 100);
  EXPECT_EQ(history.value_at(Metric::ce_loss, kWholeRun, 5 + 3 * 199'990), 199'990);
  EXPECT_NEAR(history.value_at(Metric::ce_loss, kWholeRun, 5 + 3 * 1000), 1000, 256);
  const auto old = history.series(Metric::ce_loss, kWholeRun, {5, 5 + 3 * 99'999}, 10);
  for (int b = 0; b < 10; ++b) EXPECT_NEAR(old[b].mean(), 5000 + 10'000 * b, 300) << b;
}

TEST(History, BudgetOfNothingStillShowsNow) {
  std::mt19937 rng(10);
  History history(sample_info({}), 1);
  FramePtr last;
  for (int step = 0; step < 50; ++step) history.append(last = frame_at_step(step, rng));
  expect_equal(*history.frame_at(49), *last);
}

// One writer that also rewinds, and several readers: under ThreadSanitizer this finds every unlocked access.
TEST(History, OneWriterManyReaders) {
  History history(sample_info({}), 300'000);
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&, r] {
      std::mt19937 rng(r);
      while (!done) {
        const StepRange range = history.steps();
        history.sequence();
        const StepRange steps{static_cast<std::int64_t>(rng() % 400), 400 + static_cast<std::int64_t>(rng() % 400)};
        history.series(Metric::max_vio, 1, range.empty() ? steps : range, 50);
        for (const float u : history.utilisation(1 + rng() % 2, steps, 30)) ASSERT_FALSE(u < 0);
        for (const float u : history.utilisation(1 + rng() % 2, steps, 30, Summary::mean)) ASSERT_FALSE(u < 0);
        history.expert_utilisation(1, 3, steps, 30);
        for (const float b : history.expert_bias(1, steps, 30)) ASSERT_FALSE(b < 0);
        history.scale_waterfall({1, Gemm::expert_w1, OperandRole::x, Direction::forward}, steps, 30);
        const auto frame = history.frame_at(steps.first);
        if (frame) {
          ASSERT_LE(frame->step, steps.first);
          ASSERT_EQ(frame->routers.size(), 2u);
        }
        history.quant_frame_at(steps.last);
        history.value_at(Metric::cv, 2, steps.first);
        history.markers();
        history.array_bytes();
      }
    });
  }
  std::mt19937 rng(99);
  for (int round = 0; round < 3; ++round) {
    for (int step = round * 100; step < 800; ++step) {
      history.append(frame_at_step(step, rng));
      if (step % 100 == 0) history.append(Marker{0, step, "note", "n"});
    }
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(history.steps(), (StepRange{0, 799}));
}

TEST(History, UnpacksOneLayerOfSpecialisationAsAllOfThem) {
  std::mt19937 rng(3);
  TelemetryFrame frame = sample_frame(0, {}, rng);
  add_specialisation_and_texts(frame, {}, rng);
  History history(sample_info({}));
  history.append(std::make_shared<const TelemetryFrame>(frame));
  ASSERT_GT(frame.specialisation.size(), 1u);
  for (const SpecialisationFrame& layer : frame.specialisation) {
    const auto read = history.specialisation_of(layer.layer, 0);
    ASSERT_TRUE(read);
    expect_equal(*read, layer);
  }
  EXPECT_FALSE(history.specialisation_of(99, 0));
  const auto layer = history.specialisation_layer_at(frame.specialisation.back().layer, 5);
  ASSERT_TRUE(layer);
  EXPECT_EQ(layer->step, 0);
  ASSERT_EQ(layer->specialisation.size(), 1u);
  EXPECT_EQ(layer->specialisation[0].domain_DE, frame.specialisation.back().domain_DE);
  EXPECT_EQ(history.specialisation_layer_at(99, 0)->specialisation.size(), frame.specialisation.size());
}

}  // namespace
}  // namespace moescope
