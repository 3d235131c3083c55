// The published check that MXFP8 trains like BF16 (1,500 steps of a 16B model, loss curves equal), in miniature.
//
// At full length: moescope-cli train --preset 16B-like --compare precision.experts=mxfp8_rceil --noise-twin
#include <gtest/gtest.h>

#include <cmath>

#include "core/lock_step.h"
#include "core/telemetry/comparison.h"

namespace moescope {
namespace {

constexpr std::int64_t kSteps = 200;

// Histories of runs that train together.
std::vector<HistoryPtr> train_together(const std::vector<RunConfig>& configs) {
  std::vector<Trainer> trainers;
  std::vector<std::shared_ptr<History>> histories;
  for (const RunConfig& config : configs) {
    histories.push_back(std::make_shared<History>(run_info(config, static_cast<int>(trainers.size()))));
    trainers.emplace_back(config);
  }
  LockStep lock_step(std::move(trainers));
  while (lock_step.next_step() < kSteps)
    lock_step.step([&](TelemetryFrame frame) {
      const auto run = static_cast<std::size_t>(frame.run);
      histories[run]->append(std::make_shared<const TelemetryFrame>(std::move(frame)));
      return true;
    });
  return {histories.begin(), histories.end()};
}

TEST(Convergence, Mxfp8StaysWithinTheSeedNoiseOfBf16AndASlowerRunDoesNot) {
  RunConfig bf16 = load_preset("nano").config;
  bf16.precision.experts = Recipe::bf16;
  bf16.optimizer.total_steps = kSteps;
  RunConfig mxfp8 = bf16, slow = bf16;
  mxfp8.precision.experts = Recipe::mxfp8_rceil;
  mxfp8.telemetry.gradient_every = 50;
  slow.optimizer.lr = 1e-3;  // the check must be able to fail
  const auto runs = train_together({bf16, mxfp8, noise_twin(bf16), slow});
  const HistoryPtr same[] = {runs[0], runs[2]};

  const Conclusion equal = conclude(*runs[0], *runs[1], same);
  EXPECT_EQ(equal.verdict, Verdict::inside) << equal.text;
  EXPECT_LT(std::fabs(equal.gap), 0.5f * equal.band) << equal.text;
  const Conclusion worse = conclude(*runs[0], *runs[3], same);
  EXPECT_EQ(worse.verdict, Verdict::outside) << worse.text;
  EXPECT_GT(worse.gap, 0) << worse.text;

  EXPECT_LT(runs[0]->value_at(Metric::ce_loss, kWholeRun, kSteps), 3) << "something was learnt";
  EXPECT_NEAR(runs[1]->value_at(Metric::quant_sqnr_db, kWholeRun, kSteps), 31.5, 1);
  EXPECT_GT(runs[1]->value_at(Metric::gradient_cosine, kWholeRun, kSteps), 0.9f);
  EXPECT_LT(runs[1]->value_at(Metric::gradient_snr_db, kWholeRun, kSteps), 60) << "and yet it is not FP32";
}

}  // namespace
}  // namespace moescope
