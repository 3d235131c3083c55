#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

#include "core/cluster/node_health.h"

namespace moescope {
namespace {

// Settings for sums by hand: a step takes 100 s, of which compute takes 60 s and the network 20 s.
NodeHealthConfig simple() {
  NodeHealthConfig c;
  c.nodes = 4;
  c.spares = 1;
  c.steps = 100;
  c.step_s = 100;
  c.compute_share = 0.6;
  c.network_share = 0.2;
  c.checkpoint_every = 10;
  c.checkpoint_s = 5;
  c.restore_s = 40;
  c.restart_s = 20;
  c.timeout_s = 300;
  c.active_check_s = 3600;
  c.replace_s = 1000;
  return c;
}

double sum_of(const HealthOutcome& outcome) {
  return std::accumulate(std::begin(outcome.seconds), std::end(outcome.seconds), 0.0);
}

TEST(NodeHealth, AHealthyRunPaysForItsCheckpointsOnly) {
  const HealthOutcome outcome = simulate_node_health(simple());
  EXPECT_TRUE(outcome.finished);
  EXPECT_DOUBLE_EQ(outcome.wall_s, 100 * 100 + 9 * 5);  // the last step ends the run
  EXPECT_DOUBLE_EQ(outcome.goodput, 10000.0 / 10045);
  EXPECT_EQ(outcome.lost_steps, 0);
  EXPECT_TRUE(outcome.events.empty());
}

TEST(NodeHealth, ALostNodeCostsTheStepsSinceTheCheckpoint) {
  NodeHealthConfig c = simple();
  c.faults = {{FaultKind::lost_node, 2, 17}};
  const HealthOutcome outcome = simulate_node_health(c);
  EXPECT_EQ(outcome.lost_steps, 7);
  EXPECT_EQ(outcome.restarts, 1);
  // 107 steps, the checkpoints, the time until the other nodes notice, and the restart on the spare.
  EXPECT_DOUBLE_EQ(outcome.wall_s, 107 * 100 + 9 * 5 + 300 + 60);
  EXPECT_DOUBLE_EQ(outcome.seconds[static_cast<int>(Activity::repeating)], 700);
  EXPECT_DOUBLE_EQ(outcome.seconds[static_cast<int>(Activity::hanging)], 300);
  EXPECT_DOUBLE_EQ(outcome.seconds[static_cast<int>(Activity::waiting_for_spare)], 0);
}

TEST(NodeHealth, ASlowGpuSlowsAllUntilACheckFindsIt) {
  NodeHealthConfig c = simple();
  c.faults = {{FaultKind::slow_gpu, 1, 0, 0.5}};
  const HealthOutcome outcome = simulate_node_health(c);
  // A step takes 160 s until the check at 3600 s, which is in step 23 (22 x 160 + 2 x 5 < 3600). The node stays until
  // the checkpoint after step 30.
  EXPECT_DOUBLE_EQ(outcome.seconds[static_cast<int>(Activity::slowed)], 30 * 160);
  EXPECT_EQ(outcome.lost_steps, 0);
  EXPECT_DOUBLE_EQ(outcome.wall_s, 30 * 160 + 70 * 100 + 9 * 5 + 60);

  c.drain_at_checkpoint = false;
  const HealthOutcome at_once = simulate_node_health(c);
  EXPECT_DOUBLE_EQ(at_once.seconds[static_cast<int>(Activity::slowed)], 23 * 160);
  EXPECT_EQ(at_once.lost_steps, 3);
}

TEST(NodeHealth, ADegradedLinkStretchesTheNetworkOnly) {
  NodeHealthConfig c = simple();
  c.active_check_s = 1e9;
  c.faults = {{FaultKind::degraded_link, 0, 50, 0.25}, {FaultKind::slow_gpu, 3, 90, 0.5}};
  const HealthOutcome outcome = simulate_node_health(c);
  EXPECT_DOUBLE_EQ(outcome.wall_s, 50 * 100 + 40 * 160 + 10 * 220 + 9 * 5);
}

TEST(NodeHealth, WithoutSparesTheRunWaitsForANewNode) {
  NodeHealthConfig c = simple();
  c.spares = 0;
  c.faults = {{FaultKind::lost_node, 0, 10}};
  const HealthOutcome outcome = simulate_node_health(c);
  EXPECT_DOUBLE_EQ(outcome.seconds[static_cast<int>(Activity::waiting_for_spare)], 1000);
  // A second fault long after the first finds a full pool of spares.
  c.spares = 1;
  c.faults.push_back({FaultKind::lost_node, 1, 60});
  EXPECT_DOUBLE_EQ(simulate_node_health(c).seconds[static_cast<int>(Activity::waiting_for_spare)], 0);
  c.faults[1].step = 11;  // 460 s after the first: the pool is refilled 1000 s after
  EXPECT_GT(simulate_node_health(c).seconds[static_cast<int>(Activity::waiting_for_spare)], 0);
}

TEST(NodeHealth, WithoutCheckpointsEverythingIsLost) {
  NodeHealthConfig c = simple();
  c.checkpoint_every = 0;
  c.faults = {{FaultKind::lost_node, 0, 99}};
  EXPECT_EQ(simulate_node_health(c).lost_steps, 99);
}

TEST(NodeHealth, RandomFaultsCostMoreTheMoreThereAre) {
  NodeHealthConfig c;
  c.steps = 2000;
  double before = 1;
  for (const double mtbf : {1e6, 4000.0, 400.0}) {
    c.mtbf_hours = mtbf;
    double mean = 0;
    for (c.seed = 1; c.seed <= 10; ++c.seed) mean += simulate_node_health(c).goodput / 10;
    EXPECT_LT(mean, before) << mtbf;
    before = mean;
  }
  // The expected number is 6.7 faults for 2000 x 150 s on 32 nodes at 400 h each, and more while steps are repeated.
  double faults = 0;
  for (c.seed = 1; c.seed <= 40; ++c.seed) faults += simulate_node_health(c).faults / 40.0;
  EXPECT_NEAR(faults, 8, 2);
}

TEST(NodeHealth, EverySecondIsAccountedForAndRepeatable) {
  NodeHealthConfig c;
  c.mtbf_hours = 200;
  c.spares = 0;
  const HealthOutcome a = simulate_node_health(c), b = simulate_node_health(c);
  EXPECT_GT(a.restarts, 3);
  EXPECT_NEAR(sum_of(a), a.wall_s, 1e-6 * a.wall_s);
  EXPECT_EQ(a.wall_s, b.wall_s);
  EXPECT_EQ(a.events.size(), b.events.size());
  for (std::size_t i = 1; i < a.intervals.size(); ++i) EXPECT_EQ(a.intervals[i].from_s, a.intervals[i - 1].to_s);
  for (std::size_t i = 1; i < a.points.size(); ++i) EXPECT_GE(a.points[i].at_s, a.points[i - 1].at_s);
}

TEST(NodeHealth, AHopelessRunIsGivenUp) {
  NodeHealthConfig c;
  c.mtbf_hours = 0.1;
  c.checkpoint_every = 0;
  const HealthOutcome outcome = simulate_node_health(c);
  EXPECT_FALSE(outcome.finished);
  EXPECT_LT(outcome.goodput, 0.01);
}

TEST(NodeHealth, BestCheckpointIntervalIsNearTheBestOfTheModel) {
  NodeHealthConfig c;
  c.mtbf_hours = 1000;
  c.steps = 4000;
  // sqrt(2 x 60 s x 112,500 s) / 150 s
  const std::int64_t best = best_checkpoint_every(c);
  EXPECT_EQ(best, 24);
  const auto mean_goodput = [&c](std::int64_t interval) {
    c.checkpoint_every = interval;
    double sum = 0;
    for (c.seed = 1; c.seed <= 20; ++c.seed) sum += simulate_node_health(c).goodput;
    return sum / 20;
  };
  const double at_best = mean_goodput(best);
  EXPECT_GT(at_best, mean_goodput(best / 8));
  EXPECT_GT(at_best, mean_goodput(best * 12));
  c.mtbf_hours = 0;
  EXPECT_EQ(best_checkpoint_every(c), 0);
}

TEST(NodeHealth, RefusesWhatCannotBe) {
  NodeHealthConfig c = simple();
  c.faults = {{FaultKind::slow_gpu, 4, 0, 0.5}};
  EXPECT_THROW(simulate_node_health(c), std::runtime_error);
  c.faults = {{FaultKind::slow_gpu, 3, 0, 0}};
  EXPECT_THROW(simulate_node_health(c), std::runtime_error);
  c = simple();
  c.compute_share = 0.9;
  EXPECT_THROW(simulate_node_health(c), std::runtime_error);
  c = simple();
  c.active_check_s = 0;
  EXPECT_THROW(simulate_node_health(c), std::runtime_error);
}

}  // namespace
}  // namespace moescope
