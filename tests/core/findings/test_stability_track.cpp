#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "core/findings/comparison/stability_track.h"

namespace moescope {
namespace {

// One layer, top 1 of 8: token t goes to expert (t + turn) % 8 if t < 4, else to expert t % 8.
std::shared_ptr<const TelemetryFrame> routed(std::int64_t step, int turn, const std::string& text = "abcdefgh") {
  auto frame = std::make_shared<TelemetryFrame>();
  frame->step = step;
  TokenFrame& probe = frame->texts.emplace_back();
  probe.text = text;
  TokenLayer& layer = probe.layers.emplace_back();
  layer.layer = 1;
  layer.top_k = 1;
  for (std::size_t t = 0; t < text.size(); ++t)
    layer.experts_TK.push_back(static_cast<std::uint16_t>((t < 4 ? t + static_cast<std::size_t>(turn) : t) % 8));
  layer.scores_TK.assign(text.size(), 1);
  layer.margin_T.assign(text.size(), 1);
  return frame;
}

History history() {
  RunInfo info;
  info.moe_layers = {1};
  info.n_experts = 8;
  info.top_k = 1;
  return History(info);
}

// From step 60 on the turn is 1, which changes the experts of half of the tokens.
TEST(StabilityTrack, ComparesEachStepWithItsOwnEarlierOne) {
  History run = history();
  for (std::int64_t step = 0; step <= 200; step += 20) run.append(routed(step, step >= 60 ? 1 : 0));
  StabilityTrack track({EarlierStep::Kind::steps_before, 50});
  EXPECT_FALSE(track.update(run, 100));
  ASSERT_EQ(track.points().size(), 8u) << "steps 60 to 200: those before have nothing 50 steps earlier";
  EXPECT_EQ(track.points()[0].step, 60);
  EXPECT_EQ(track.points()[0].reference, 0) << "the newest at or before 10";
  EXPECT_FLOAT_EQ(track.points()[0].unchanged_L[0], 0.5f);
  EXPECT_FLOAT_EQ(track.points()[2].unchanged_L[0], 0.5f) << "100 against 40";
  EXPECT_FLOAT_EQ(track.points()[3].shared_L[0], 1) << "120 against 60";
  EXPECT_EQ(track.at(59), nullptr);
  EXPECT_EQ(track.at(79)->step, 60);
}

TEST(StabilityTrack, TakesInALittleAtATime) {
  History run = history();
  for (std::int64_t step = 0; step <= 100; step += 10) run.append(routed(step, 0));
  StabilityTrack track({EarlierStep::Kind::at, 30}), at_once({EarlierStep::Kind::at, 30});
  int turns = 1;
  while (track.update(run, 2)) ++turns;
  EXPECT_EQ(turns, 6);
  at_once.update(run, 100);
  ASSERT_EQ(track.points().size(), 10u) << "every step but the pinned one itself";
  for (std::size_t i = 0; i < track.points().size(); ++i) EXPECT_EQ(track.points()[i].step, at_once.points()[i].step);
  run.append(routed(110, 2));
  EXPECT_FALSE(track.update(run, 2));
  EXPECT_EQ(track.points().back().step, 110);
  EXPECT_FLOAT_EQ(track.points().back().unchanged_L[0], 0.5f);
}

TEST(StabilityTrack, StartsAnewWhereTheRunWasTakenBack) {
  History run = history();
  for (std::int64_t step = 0; step <= 100; step += 10) run.append(routed(step, 0));
  StabilityTrack track({EarlierStep::Kind::half_way, 0});
  track.update(run, 100);
  run.append(routed(50, 3));
  track.update(run, 100);
  EXPECT_EQ(track.points().back().step, 50);
  EXPECT_FLOAT_EQ(track.points().back().unchanged_L[0], 0.5f);
}

TEST(StabilityTrack, AnotherTextCannotBeCompared) {
  History run = history();
  run.append(routed(0, 0));
  run.append(routed(10, 0, "something"));
  StabilityTrack track({EarlierStep::Kind::at, 0});
  track.update(run, 100);
  ASSERT_EQ(track.points().size(), 1u);
  EXPECT_TRUE(is_missing(track.points()[0].unchanged_L[0]));
  EXPECT_TRUE(is_missing(track.points()[0].shared_L[0]));
}

TEST(StabilityTrack, ALongRunIsKeptEvenlyAndWithinBounds) {
  History run = history();
  StabilityTrack track({EarlierStep::Kind::steps_before, 10});
  for (std::int64_t step = 0; step < 40000; step += 2) {
    run.append(routed(step, static_cast<int>(step / 2 % 8)));
    if (step % 500 == 0) track.update(run, 1000);
  }
  track.update(run, 1000);
  const auto& points = track.points();
  ASSERT_LE(points.size(), StabilityTrack::kMaxPoints);
  EXPECT_GE(points.size(), StabilityTrack::kMaxPoints / 4);
  EXPECT_EQ(points.front().step, 10);
  EXPECT_EQ(points.back().step, 39998);
  for (std::size_t i = 1; i < points.size(); ++i) {
    EXPECT_GT(points[i].step, points[i - 1].step);
    EXPECT_LE(points[i].step - points[i - 1].step, 64);
  }
  EXPECT_EQ(track.at(20001)->step, std::prev(std::ranges::upper_bound(points, 20001, {}, &StabilityPoint::step))->step);
}

}  // namespace
}  // namespace moescope
