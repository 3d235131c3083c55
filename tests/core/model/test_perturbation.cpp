// A perturbation changes every weight by one unit in the last place, and its effect grows in training.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "core/config/config_check.h"
#include "core/config/config_toml.h"
#include "core/model/learner.h"
#include "core/training/engine/engine.h"
#include "tests/support/engine_frames.h"

namespace moescope {
namespace {

RunConfig nano(std::int64_t perturbation) {
  RunConfig config = load_preset("nano").config;
  config.perturbation = perturbation;
  return config;
}

// True if `a` and `b` are adjacent floats: no float lies between them.
bool neighbours(float a, float b) {
  return std::abs(std::bit_cast<std::int32_t>(a) - std::bit_cast<std::int32_t>(b)) == 1;
}

TEST(Perturbation, MovesEveryWeightByAUnitInTheLastPlace) {
  const Learner<float> plain(nano(0)), one(nano(1)), again(nano(1)), two(nano(2));
  std::size_t up = 0, other_choice = 0, all = 0;
  for (const ParameterRun& run : plain.parameters.runs())
    for (std::size_t i = run.offset; i < run.offset + run.count; ++i) {
      const float before = plain.parameters.weights[i], after = one.parameters.weights[i];
      ASSERT_TRUE(neighbours(before, after)) << before << ' ' << after;
      ASSERT_EQ(after, again.parameters.weights[i]) << "the same number, the same weights";
      up += after > before;
      other_choice += after != two.parameters.weights[i];
      ++all;
    }
  EXPECT_EQ(all, static_cast<std::size_t>(parameter_count(nano(0))));
  EXPECT_NEAR(static_cast<double>(up), 0.5 * static_cast<double>(all), 0.01 * static_cast<double>(all));
  EXPECT_NEAR(static_cast<double>(other_choice), 0.5 * static_cast<double>(all), 0.01 * static_cast<double>(all));
}

// BF16 rounding removes a difference in the last place of a float, or makes it a unit of BF16: runs diverge early.
TEST(Perturbation, GrowsWhileTraining) {
  std::vector<Trainer> trainers;
  for (const std::int64_t perturbation : {0, 1}) {
    RunConfig config = nano(perturbation);
    for (Recipe PrecisionConfig::*part : {&PrecisionConfig::experts, &PrecisionConfig::shared_experts,
                                          &PrecisionConfig::dense_ffn, &PrecisionConfig::attention})
      config.precision.*part = Recipe::bf16;
    config.telemetry.flips_every = 0;
    trainers.emplace_back(config);
  }
  Engine engine(std::move(trainers));
  train_until(engine, 120);
  std::vector<std::vector<float>> losses;
  for (const auto& history : engine.histories())
    losses.push_back(history->values(Metric::ce_loss, kWholeRun, {0, 119}));
  EXPECT_NEAR(losses[0].front(), losses[1].front(), 1e-2) << "the same start";
  double early = 0, late = 0;
  for (std::size_t step = 0; step < 20; ++step) {
    early += std::fabs(losses[0][step] - losses[1][step]) / 20;
    late += std::fabs(losses[0][100 + step] - losses[1][100 + step]) / 20;
  }
  EXPECT_GT(late, 2 * early);
}

}  // namespace
}  // namespace moescope
