// Runs whose step numbers are far apart, as in logs whose step is the number of tokens seen.
#include <gtest/gtest.h>

#include "core/findings/comparison/comparison.h"
#include "core/findings/comparison/same_settings.h"
#include "core/findings/health.h"
#include "core/recording/history/step_axis.h"
#include "tests/support/made_up_run.h"
#include "tests/support/processor_time.h"

namespace moescope {
namespace {

constexpr std::int64_t kStepSpacing = 4'000'000, kSteps = 1000;

// Returns `run` with its step numbers multiplied by `apart`.
std::shared_ptr<History> spread(const History& run, std::int64_t distance) {
  auto far = std::make_shared<History>(run.info());
  for (const std::int64_t step : run.steps_in(run.steps())) {
    auto frame = std::make_shared<TelemetryFrame>(*run.frame_at(step));
    frame->step = step * distance;
    far->append(std::move(frame));
  }
  return far;
}

std::shared_ptr<History> uneven_run() {
  MadeUp run;
  MadeUp::Shares uneven = MadeUp::even();
  run.steps(200, uneven, uneven);
  uneven[5] = 0;
  uneven[3] = 12;
  run.steps(kSteps - 200, uneven, MadeUp::even());
  return run.history();
}

Health health_of(const HistoryPtr& history) {
  FindingsScan scan(history);
  scan.advance(INT64_MAX);
  return judge_health(scan);
}

TEST(FarApart, AHistoryTellsTheStepsThatItHas) {
  const auto run = spread(*uneven_run(), kStepSpacing);
  EXPECT_EQ(run->count(), kSteps);
  EXPECT_EQ(run->steps_in({kStepSpacing, 3 * kStepSpacing}),
            (std::vector<std::int64_t>{kStepSpacing, 2 * kStepSpacing, 3 * kStepSpacing}));
  EXPECT_EQ(run->last_steps(3), (StepRange{997 * kStepSpacing, 999 * kStepSpacing}));
  EXPECT_EQ(run->last_steps(2, 5 * kStepSpacing + 1), (StepRange{4 * kStepSpacing, 5 * kStepSpacing}));
  EXPECT_TRUE(run->last_steps(2, -1).empty());
  EXPECT_EQ(run->values_in(Metric::ce_loss, kWholeRun, run->steps()).size(), 1000u);
  const std::vector<std::int64_t> steps = {kStepSpacing, kStepSpacing + 1, 2 * kStepSpacing};
  const std::vector<float> values = run->values_at(Metric::ce_loss, kWholeRun, steps);
  EXPECT_EQ(values[2], run->value_at(Metric::ce_loss, kWholeRun, 2 * kStepSpacing));
  EXPECT_TRUE(is_missing(values[1])) << "was not taken";
  EXPECT_EQ(run->utilisation(1, edges_of({kStepSpacing, 2 * kStepSpacing}), Summary::mean).size(),
            2u * MadeUp::kExperts);
}

TEST(FarApart, TheSameFindingsAtTheirSteps) {
  const auto near = uneven_run();
  const auto far = spread(*near, kStepSpacing);
  const double begin = processor_seconds();
  const auto expected = find_all(near), found = find_all(far);
  EXPECT_LT(processor_seconds() - begin, 5);
  ASSERT_GE(expected.size(), 2u);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].kind, expected[i].kind);
    EXPECT_EQ(found[i].experts, expected[i].experts);
    EXPECT_EQ(found[i].steps.first, expected[i].steps.first * kStepSpacing) << found[i].title;
    EXPECT_EQ(found[i].steps.last, expected[i].steps.last * kStepSpacing) << found[i].title;
  }
  const auto dead = findings_of_kind(found, FindingKind::dead);
  ASSERT_EQ(dead.size(), 1u);
  EXPECT_NE(dead[0].observation.find("since step 800,000,000"), std::string::npos) << dead[0].observation;
  EXPECT_EQ(health_of(far).verdict, health_of(near).verdict);
}

TEST(FarApart, PositionsAreLines) {
  MadeUp made;
  made.steps(20, MadeUp::even(), MadeUp::even());
  StepAxis axis;
  axis.update(*spread(*made.history(), kStepSpacing));
  EXPECT_EQ(axis.positions(), (StepRange{0, 19 * kLongestGap}));
  for (std::int64_t position = 0; position <= axis.positions().last; ++position) {
    EXPECT_EQ(axis.line(position), position / kLongestGap * kStepSpacing);
    EXPECT_EQ(axis.position(axis.step(position)), position);
  }
  StepAxis near;
  near.update(*made.history());
  EXPECT_EQ(near.line(7), 7);
  EXPECT_EQ(near.positions(), (StepRange{0, 19}));
}

TEST(FarApart, NothingLastsForFewerThanTenLines) {
  MadeUp::Shares hot = MadeUp::even();
  hot[3] = 12;
  for (const int lines : {9, 10}) {
    MadeUp young;
    young.steps(lines, hot, hot);
    EXPECT_EQ(find_all(spread(*young.history(), kStepSpacing)).empty(), lines == 9);
    const HealthVerdict verdict = health_of(spread(*young.history(), kStepSpacing)).verdict;
    EXPECT_EQ(verdict, lines == 9 ? HealthVerdict::too_young : HealthVerdict::attention);
  }
}

TEST(FarApart, AScanThatFollowsFindsTheSame) {
  const auto far = spread(*uneven_run(), kStepSpacing);
  FindingsScan scan(far);
  for (std::int64_t step = 0; step < kSteps; step += 37) scan.advance(step * kStepSpacing);
  scan.advance(INT64_MAX);
  EXPECT_EQ(scan.read_steps(), far->steps());
  EXPECT_EQ(all_text(scan.findings()), all_text(find_all(far)));
}

// A log may begin with steps that are close together.
TEST(FarApart, ARunWhoseStepsMoveApartIsReadAgain) {
  MadeUp made;
  made.steps(300, MadeUp::even(), MadeUp::even());
  const auto near = made.history();
  auto run = std::make_shared<History>(near->info());
  FindingsScan scan(run);
  for (std::int64_t step = 0; step < 300; ++step) {
    auto frame = std::make_shared<TelemetryFrame>(*near->frame_at(step));
    frame->step = step < 20 ? step : (step - 19) * kStepSpacing;
    run->append(std::move(frame));
    if (step % 7 == 0) scan.advance(INT64_MAX);
  }
  scan.advance(INT64_MAX);
  EXPECT_EQ(scan.read_steps(), run->steps());
  EXPECT_TRUE(scan.findings().empty()) << all_text(scan.findings());
}

TEST(FarApart, RunsAreComparedAtTheStepsThatBothHave) {
  const auto a = spread(*uneven_run(), kStepSpacing), b = spread(*uneven_run(), 2 * kStepSpacing);
  GapTrack track(a, b);
  track.update();
  EXPECT_EQ(track.count(), kSteps / 2);
  EXPECT_EQ(track.steps(), (StepRange{0, 998 * kStepSpacing}));
  EXPECT_EQ(track.raw().size(), 500u);
  EXPECT_EQ(track.series(slice_edges(track.steps(), 4))[3].finite, 125u);
  const HistoryPtr both[] = {a, b};
  EXPECT_EQ(last_common_steps(both, 100), (StepRange{900 * kStepSpacing, 999 * kStepSpacing}));
  EXPECT_EQ(run_figures(*a, last_common_steps(both, 100)).steps, kSteps);
  EXPECT_EQ(beginning_of(*a, 10 * kStepSpacing)->count(), 11);
}

TEST(FarApart, TextsCountTheLoggedSteps) {
  MadeUp made;
  made.steps(1, MadeUp::even(), MadeUp::even());
  EXPECT_EQ(steps_text(*made.history()), "1 step");
  made.steps(99, MadeUp::even(), MadeUp::even());
  EXPECT_EQ(steps_text(*made.history()), "100 steps");
  for (const std::int64_t distance : {std::int64_t{2}, std::int64_t{99}, std::int64_t{101}, kStepSpacing})
    EXPECT_EQ(steps_text(*spread(*made.history(), distance)), "100 logged steps");
}

}  // namespace
}  // namespace moescope
