// The published check that MXFP8 trains like BF16 (1,500 steps of a 16B model, loss curves equal), and where it fails.
//
// The presets convergence-check and mxfp4-everywhere train 15.7 million parameters for 1,500 steps: minutes to an hour.
// Here their number formats train the model of nano, and the presets themselves take their first steps. "Worse" is the
// verdict of core/findings/comparison/verdict.h on the mean of paired losses. Both directions are tested: MXFP8 must
// pass, MXFP4 must not.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/config/config_difference.h"
#include "core/config/config_toml.h"
#include "core/findings/comparison/comparison.h"
#include "core/findings/comparison/verdict_words.h"
#include "core/training/engine/engine.h"
#include "tests/support/engine_frames.h"
#include "tests/support/seeds.h"

namespace moescope {
namespace {

// Returns the histories of runs that train together.
std::vector<HistoryPtr> train_together(const std::vector<RunConfig>& configs, std::int64_t steps) {
  Engine engine({configs.begin(), configs.end()});
  train_until(engine, steps);
  return {engine.histories().begin(), engine.histories().end()};
}

// Returns the baseline, MXFP8, MXFP4 everywhere and a perturbed twin of the baseline.
std::vector<RunConfig> preset_runs() {
  const std::vector<RunConfig> check = all_runs(load_preset("convergence-check"));
  const std::vector<RunConfig> fails = all_runs(load_preset("mxfp4-everywhere"));
  EXPECT_TRUE(difference(check[0], fails[0]).empty()) << "one baseline serves both";
  return {check[0], check[1], fails[1], check[2]};
}

// The help of router.aux_coeff states this for a coefficient of 1.
TEST(AuxiliaryLoss, OfWeightOneCostsTheScoresNotTheLanguageLoss) {
  std::vector<RunConfig> configs(2, load_preset("nano").config);
  for (RunConfig& config : configs) config.router.bias_update_rate = 0;
  configs[1].router.aux_mode = AuxMode::batch;
  configs[1].router.aux_coeff = 1;
  const auto runs = train_together(configs, 300);
  const auto mean_of = [&](int run, Metric metric, int layer) {
    const std::vector<float> values = runs[static_cast<std::size_t>(run)]->values(metric, layer, {250, 299});
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  for (const int layer : runs[0]->info().moe_layers) {
    const double remaining_share =
        mean_of(1, Metric::mutual_information, layer) / mean_of(0, Metric::mutual_information, layer);
    EXPECT_LT(remaining_share, 0.1) << layer;  // 1/20 or less in the measured runs
    EXPECT_LT(mean_of(1, Metric::max_vio_window, layer), 0.1) << layer;
  }
  const double rise = mean_of(1, Metric::ce_loss, kWholeRun) / mean_of(0, Metric::ce_loss, kWholeRun) - 1;
  EXPECT_LT(std::fabs(rise), 0.05) << "a few per cent";
}

class SmallModel : public testing::TestWithParam<std::int64_t> {};

TEST_P(SmallModel, Mxfp8StaysWithinTheChaosOfBf16AndMxfp4DoesNot) {
  constexpr std::int64_t kSteps = 500;
  std::vector<RunConfig> configs;
  for (const RunConfig& run : preset_runs()) {
    RunConfig small = load_preset("nano").config;
    small.name = run.name;
    small.precision = run.precision;
    small.seed = 100 * GetParam() + run.seed;
    small.perturbation = run.perturbation;
    small.optimizer.total_steps = kSteps;
    small.telemetry.flips_every = 0;
    small.telemetry.validation_every = 0;
    small.telemetry.gradient_every = 100;
    configs.push_back(small);
  }
  configs.push_back(configs[3]);
  configs.back().perturbation = 2;
  const auto runs = train_together(configs, kSteps);
  const PairedRun twins[] = {{runs[3]}, {runs[4]}};

  const Conclusion equal = conclude(runs[0], {runs[1]}, twins);
  // MXFP8 may be better: with 95 % intervals, one seed of forty is by chance (seed 5, by 0.015 +-0.012).
  EXPECT_NE(equal.verdict, Verdict::worse) << verdict_sentence(equal);
  const Conclusion worse = conclude(runs[0], {runs[2]}, twins);
  EXPECT_EQ(worse.verdict, Verdict::worse) << verdict_sentence(worse);
  EXPECT_GT(worse.gap, 0) << verdict_sentence(worse);
  EXPECT_GT(worse.gap, 3 * std::fabs(equal.gap)) << verdict_sentence(worse) << '\n' << verdict_sentence(equal);

  EXPECT_LT(runs[0]->value_at(Metric::ce_loss, kWholeRun, kSteps), 2) << "something was learnt";
  EXPECT_GT(runs[1]->value_at(Metric::gradient_cosine, kWholeRun, kSteps), 0.98f);
  EXPECT_LT(runs[2]->value_at(Metric::gradient_cosine, kWholeRun, kSteps), 0.95f);
  // Share of tokens whose experts the formats change, with the same weights.
  const auto flips = [&](std::size_t run) {
    return runs[run]->value_at(Metric::rounding_flip_rate, kWholeRun, kSteps);
  };
  EXPECT_LT(flips(0), 0.02f);
  EXPECT_LT(flips(1), 0.06f);
  EXPECT_GT(flips(2), 0.1f);
}
INSTANTIATE_TEST_SUITE_P(Seeds, SmallModel, testing::ValuesIn(tried_seeds()));

// The gap is large enough to be seen without a verdict.
TEST(Presets, TellTheFormatsApartWithinThirtySteps) {
  std::vector<RunConfig> configs = preset_runs();
  configs.pop_back();
  for (RunConfig& config : configs) {
    config.telemetry.flips_every = config.telemetry.gradient_every = 0;
    config.data.seq /= 2;  // in half of the time
  }
  const auto runs = train_together(configs, 30);
  const StepRange steps{0, 29};
  const auto smoothed_gap = [&](std::size_t run) {
    GapTrack gap(runs[0], runs[run]);
    gap.update();
    return gap.smoothed(slice_edges(steps, 1))[0];
  };
  const float mxfp8 = smoothed_gap(1), mxfp4 = smoothed_gap(2);
  EXPECT_LT(std::fabs(mxfp8), 0.01f);
  EXPECT_GT(mxfp4, 0.03f);
}

}  // namespace
}  // namespace moescope
