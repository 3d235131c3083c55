// A grid of trainings: its runs, each of which trains as it would alone, and the means and intervals over seeds.
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <stdexcept>

#include "core/numerics/threads.h"
#include "core/training/engine/run_queue.h"
#include "core/training/engine/sweep.h"
#include "tests/support/engine_frames.h"
#include "tests/support/small_run.h"

namespace moescope {
namespace {

constexpr std::int64_t kSteps = 6;

std::vector<SweepAxis> axes_of(const std::vector<std::string>& texts) {
  std::vector<SweepAxis> axes;
  for (const std::string& text : texts) axes.push_back(parse_sweep_axis(text));
  return axes;
}

std::string refused(const std::string& text) {
  try {
    parse_sweep_axis(text);
  } catch (const std::runtime_error& problem) {
    return problem.what();
  }
  return {};
}

TEST(Sweep, AnAxisIsReadOrRefusedWithTheReason) {
  const SweepAxis axis = parse_sweep_axis("router.top_k=1,2,4");
  EXPECT_EQ(axis.field->key, "router.top_k");
  ASSERT_EQ(axis.values.size(), 3u);
  EXPECT_EQ(to_string(axis.values[2]), "4");
  EXPECT_NE(refused("router.top_k").find("KEY=VALUE"), std::string::npos);
  EXPECT_NE(refused("router.topk=1").find("did you mean router.top_k"), std::string::npos);
  EXPECT_NE(refused("router.top_k=1,two").find("router.top_k"), std::string::npos);
  EXPECT_NE(refused("router.top_k=1,2,1").find("there twice"), std::string::npos);
  EXPECT_NE(refused("seed=1,2").find("not an axis"), std::string::npos);
}

TEST(Sweep, EveryCombinationGetsEverySeed) {
  const RunConfig base = small_run();
  const auto axes = axes_of({"router.top_k=1,2", "precision.experts=fp32,mxfp4"});
  const std::vector<RunGroup> runs = sweep_groups(base, axes, 2, "grid.moescope");
  ASSERT_EQ(runs.size(), 8u);
  EXPECT_EQ(runs[0].recording, "grid-1.moescope");
  EXPECT_EQ(runs[1].runs.front().router.top_k, 1);
  EXPECT_EQ(runs[1].runs.front().precision.experts, Recipe::mxfp4);
  EXPECT_EQ(runs[2].runs.front().router.top_k, 2);
  EXPECT_EQ(runs[3].runs.front().seed, base.seed);
  EXPECT_EQ(runs[7].runs.front().seed, base.seed + 1);
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(runs[i].runs.front().name, runs[j].runs.front().name);
  EXPECT_THROW(sweep_groups(base, axes_of({"router.top_k=1,100"}), 1, ""), std::runtime_error);  // fewer experts
  EXPECT_THROW(sweep_groups(base, axes_of({"router.top_k=1", "router.top_k=2"}), 1, ""), std::runtime_error);
  EXPECT_THROW(sweep_groups(base, axes, 1000, ""), std::runtime_error);
}

// The other runs of the sweep do not matter.
TEST(Sweep, EachRunIsTheOneThatItIsAlone) {
  const RunConfig base = small_run();
  const auto axes = axes_of({"router.top_k=1,2"});
  for (const int threads : {1, 4}) {
    set_num_threads(threads);
    RunQueue queue(sweep_groups(base, axes, 2, ""), kSteps);
    QueueStatus last;
    EXPECT_TRUE(queue.train([&](const QueueStatus& status) {
      last = status;
      return true;
    }));
    EXPECT_EQ(last.finished, 4);
    EXPECT_DOUBLE_EQ(last.share, 1);
    for (const RunGroup& run : queue.groups()) {
      Engine engine({run.runs.begin(), run.runs.end()});
      train_until(engine, kSteps);
      EXPECT_EQ(engine.histories().front()->values(Metric::ce_loss, kWholeRun, {0, kSteps - 1}),
                run.histories.front()->values(Metric::ce_loss, kWholeRun, {0, kSteps - 1}))
          << run.runs.front().name;
    }
  }
  set_num_threads(0);
}

TEST(Sweep, ResumesWithMissingRuns) {
  const auto axes = axes_of({"router.top_k=1,2"});
  set_num_threads(1);
  RunQueue queue(sweep_groups(small_run(), axes, 1, ""), kSteps);
  int calls = 0;
  EXPECT_FALSE(queue.train([&](const QueueStatus&) { return ++calls < kSteps + 2; }));
  set_num_threads(0);
  EXPECT_TRUE(queue.groups()[0].finished);
  EXPECT_TRUE(queue.groups()[1].histories.empty()) << "half a run does not compare";
  const HistoryPtr first = queue.groups()[0].histories.front();
  EXPECT_TRUE(queue.train());
  EXPECT_EQ(queue.groups()[0].histories.front(), first);
  EXPECT_EQ(queue.groups()[1].histories.front()->steps().last, kSteps - 1);
}

// Means, Student's intervals and paired gaps computed by hand, from histories with chosen losses.
TEST(Sweep, GapsArePairedBySeed) {
  const auto axes = axes_of({"router.top_k=1,2"});
  std::vector<RunGroup> runs = sweep_groups(small_run(), axes, 3, "");
  const float losses[] = {1.0f, 1.5f, 2.0f, 2.75f, 3.0f, 3.25f};  // seed by seed, two points each
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto history = std::make_shared<History>(run_info(runs[i].runs.front(), 0));
    TelemetryFrame frame;
    frame.ce_loss = losses[i];
    history->append(std::make_shared<TelemetryFrame>(std::move(frame)));
    runs[i].histories = {history};
    runs[i].finished = true;
  }
  const std::vector<SweepPoint> points = sweep_points(runs, axes, 1);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[1].values, std::vector<std::string>{"2"});
  EXPECT_NEAR(points[0].loss.mean, 2, 1e-12);
  EXPECT_NEAR(points[0].loss.half_width, 4.302653 / std::sqrt(3.0), 1e-5);  // t of 2 degrees of freedom, deviation 1
  EXPECT_TRUE(std::isnan(points[0].gap.mean));
  EXPECT_NEAR(points[1].gap.mean, 0.5, 1e-12);  // mean of 0.5, 0.75, 0.25
  EXPECT_NEAR(points[1].gap.half_width, 4.302653 * 0.25 / std::sqrt(3.0), 1e-5);
}

// With every further setting, one is likelier to differ from the first by chance: the interval of its gap is wider.
TEST(Sweep, IntervalsOfGapsAllowForTheNumberOfSettings) {
  const auto axes = axes_of({"router.top_k=1,2,3,4"});
  std::vector<RunGroup> runs = sweep_groups(small_run(), axes, 3, "");
  const float gaps[] = {0.5f, 0.75f, 0.25f};  // one for each seed
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto history = std::make_shared<History>(run_info(runs[i].runs.front(), 0));
    TelemetryFrame frame;
    frame.ce_loss = i % 4 == 0 ? 2.0f : 2.0f + gaps[i / 4];
    history->append(std::make_shared<TelemetryFrame>(std::move(frame)));
    runs[i].histories = {history};
    runs[i].finished = true;
  }
  const std::vector<SweepPoint> points = sweep_points(runs, axes, 1);
  for (const SweepPoint& point : std::span(points).subspan(1)) {
    EXPECT_NEAR(point.gap.mean, 0.5, 1e-12);
    EXPECT_NEAR(point.gap.half_width, 7.6488 * 0.25 / std::sqrt(3.0), 1e-3) << "t of 2 degrees at 1 - 0.05 / 3";
  }
}

// The settings of all runs decide which loss is compared, not the size of its gap.
TEST(Sweep, TheValidationLossDecidesWhereEveryRunMeasuresIt) {
  const auto axes = axes_of({"router.top_k=1,2"});
  for (const int validation_every : {0, 1}) {
    RunConfig base = small_run();
    base.telemetry.validation_every = validation_every;
    std::vector<RunGroup> runs = sweep_groups(base, axes, 2, "");
    for (std::size_t i = 0; i < runs.size(); ++i) {
      auto history = std::make_shared<History>(run_info(runs[i].runs.front(), 0));
      for (std::int64_t step = 0; step < 2; ++step) {
        TelemetryFrame frame;
        frame.step = step;
        frame.ce_loss = i % 2 == 0 ? 2.0f : 2.5f;
        frame.val_loss = i % 2 == 0 ? 2.0f : 1.75f;
        history->append(std::make_shared<TelemetryFrame>(std::move(frame)));
      }
      runs[i].histories = {history};
      runs[i].finished = true;
    }
    const SweepPoint point = sweep_points(runs, axes, 2)[1];
    EXPECT_EQ(point.by_validation, validation_every == 1);
    EXPECT_NEAR(point.gap.mean, validation_every == 1 ? -0.25 : 0.5, 1e-12);
  }
}

TEST(Sweep, ARunThatLosesItsLossIsInNoMean) {
  RunConfig base = small_run();
  base.optimizer.warmup_steps = 0;
  const auto axes = axes_of({"optimizer.lr=0.001,1"});
  std::vector<RunGroup> runs = sweep_groups(base, axes, 1, "");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto history = std::make_shared<History>(run_info(runs[i].runs.front(), 0));
    TelemetryFrame frame;
    frame.ce_loss = i == 0 ? 2.0f : std::nanf("");
    history->append(std::make_shared<TelemetryFrame>(std::move(frame)));
    runs[i].histories = {history};
    runs[i].finished = true;
  }
  const std::vector<SweepPoint> points = sweep_points(runs, axes, 1);
  EXPECT_EQ(points[1].lost, 1);
  EXPECT_EQ(points[1].ended, 1);
  EXPECT_TRUE(std::isnan(points[1].loss.mean));
  EXPECT_TRUE(std::isnan(points[1].gap.mean));
}

}  // namespace
}  // namespace moescope
