// Young's formula against a simulation of random failures.
#include <gtest/gtest.h>

#include <random>

#include "core/cluster/step_model.h"

namespace moescope {
namespace {

// Returns kept time / elapsed time of a run whose failures are exponentially distributed, also during restarts.
double simulated_goodput(const NodeHealth& health, double interval_s) {
  std::mt19937_64 random(1);
  std::exponential_distribution<double> time_to_failure(1 / health.run_mtbf_s());
  double elapsed = 0, useful_s = 0, failure = time_to_failure(random);
  for (int checkpoint = 0; checkpoint < 200000; ++checkpoint) {
    double end = elapsed + interval_s + health.checkpoint_s;
    while (failure < end) {
      elapsed = failure;
      end = elapsed + health.restart_s + interval_s + health.checkpoint_s;
      failure = elapsed + time_to_failure(random);
    }
    elapsed = end;
    useful_s += interval_s;
  }
  return useful_s / elapsed;
}

TEST(NodeHealth, YoungsFormulaIsTheGoodputOfRandomFailures) {
  const NodeHealth health;
  for (const double factor : {0.5, 1.0, 2.0}) {
    const double interval = factor * health.best_interval_s();
    EXPECT_NEAR(health.goodput(interval), simulated_goodput(health, interval), 0.002) << factor;
  }
}

TEST(NodeHealth, TheBestIntervalLosesLeast) {
  const NodeHealth health{.nodes = 128, .node_mtbf_s = 1e6, .checkpoint_s = 30, .restart_s = 600};
  EXPECT_NEAR(health.best_interval_s(), std::sqrt(2 * 30 * 1e6 / 128), 1e-9);
  const double best = health.goodput(health.best_interval_s());
  for (const double factor : {0.8, 0.95, 1.05, 1.2}) EXPECT_GT(best, health.goodput(factor * health.best_interval_s()));
}

}  // namespace
}  // namespace moescope
