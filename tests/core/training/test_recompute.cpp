// An operand of a past step, computed again by a copy of the run, has exactly the values captured at that step.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "core/recording/recording.h"
#include "core/training/engine/live_runs.h"
#include "core/training/engine/retrain.h"
#include "tests/support/live_steps.h"
#include "tests/support/processor_time.h"
#include "tests/support/small_run.h"

namespace moescope {
namespace {

using namespace std::chrono_literals;

RunConfig two_recipe_run(const char* name = "run") {
  RunConfig c = small_run();
  c.name = name;
  c.precision.experts = Recipe::mxfp8_rceil;
  c.precision.attention = Recipe::nvfp4;
  c.precision.rounding = Rounding::stochastic;
  c.telemetry.checkpoint_every = 4;
  return c;
}

template <class Thing>
void wait_for(const Thing& capture) {
  for (int i = 0; i < 3000 && capture.state() == Capture::State::waiting; ++i) std::this_thread::sleep_for(10ms);
}

std::shared_ptr<const CapturedOperand> recomputed(RecomputePlan plan) {
  Recomputation recompute(std::move(plan));
  wait_for(recompute.capture());
  EXPECT_EQ(recompute.capture().error(), "");
  return recompute.capture().operand();
}

void expect_same(const CapturedOperand& a, const CapturedOperand& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.run, b.run);
  EXPECT_EQ(a.run_name, b.run_name);
  EXPECT_TRUE(a.format == b.format);
  EXPECT_EQ(a.expert_rows, b.expert_rows);
  EXPECT_EQ(a.values, b.values);
  EXPECT_EQ(a.sums.e8m0_blocks, b.sums.e8m0_blocks);
  EXPECT_EQ(a.sums.err2, b.sums.err2);
}

const OperandPlace kExperts{1, Gemm::expert_w1, OperandRole::x, Direction::wgrad};
const OperandPlace kAttention{2, Gemm::wq, OperandRole::dy, Direction::dgrad};

// Two runs in lock-step with different settings, with changes of the settings of both and of the mixture of texts.
TEST(Recomputation, IsTheTensorOfThenFromACheckpointAndFromTheRecording) {
  const std::string path = testing::TempDir() + "recompute.moescope";
  std::shared_ptr<const CapturedOperand> then_a, then_b;
  {
    RunConfig second = two_recipe_run("other");
    second.precision.experts = Recipe::fp8_deepseek_128;
    LiveRuns live({two_recipe_run(), second}, path);
    run_to(live, 3);
    live.change({0, &OptimizerConfig::lr, 3e-3});
    live.change({0, &DataConfig::mixture, std::string("JSON=1")});
    live.change({1, &RouterConfig::top_k, std::int64_t{1}});
    run_to(live, 6);
    const auto a = live.capture(0, kExperts), b = live.capture(1, kAttention);
    live.run_until(7);
    wait_for(*a);
    wait_for(*b);
    run_to(live, 10);
    then_a = a->operand();
    then_b = b->operand();
    ASSERT_TRUE(then_a && then_b);
    const std::int64_t step = then_a->step, step_b = then_b->step;  // the first steps after the requests

    const auto histories = live.histories();
    const auto checkpoint = live.checkpoint_before(0, step);
    ASSERT_TRUE(checkpoint);
    EXPECT_EQ(checkpoint->steps_taken, 4);
    expect_same(*recomputed(plan_recompute(*histories[0], *histories[0], kExperts, step, checkpoint)), *then_a);
    expect_same(*recomputed(plan_recompute(*histories[0], *histories[0], kExperts, step)), *then_a);
    expect_same(*recomputed(plan_recompute(*histories[1], *histories[0], kAttention, step_b,
                                           live.checkpoint_before(1, step_b))),
                *then_b);
    EXPECT_EQ(live.status().step, 10);
  }
  const RecordingReader reader(path);
  const auto a = reader.load(0), b = reader.load(1);
  expect_same(*recomputed(plan_recompute(*a, *a, kExperts, then_a->step)), *then_a);
  expect_same(*recomputed(plan_recompute(*b, *a, kAttention, then_b->step)), *then_b);
  if (const std::string file = recorded_checkpoint(path, "run", then_a->step); !file.empty())
    expect_same(*recomputed(plan_recompute(*a, *a, kExperts, then_a->step, nullptr, file)), *then_a);
}

TEST(Recomputation, OtherStepsAreRefused) {
  LiveRuns live({two_recipe_run()}, "");
  run_to(live, 5);
  const auto history = live.histories()[0];
  EXPECT_THROW(plan_recompute(*history, *history, kExperts, 5), std::invalid_argument);
  RecomputePlan other = plan_recompute(*history, *history, kExperts, 4);
  other.training.config.seed = 2;
  Recomputation recompute(other);
  wait_for(recompute.capture());
  EXPECT_EQ(recompute.capture().state(), Capture::State::failed);
  EXPECT_NE(recompute.capture().error().find("gave another loss"), std::string::npos);

  OperandPlace nowhere = kExperts;
  nowhere.layer = 0;  // a dense layer
  Recomputation missing(plan_recompute(*history, *history, nowhere, 2));
  wait_for(missing.capture());
  EXPECT_NE(missing.capture().error().find("has no layer 0"), std::string::npos) << missing.capture().error();
}

TEST(Recomputation, EndsWithinAStepWhenItIsDropped) {
  LiveRuns live({two_recipe_run()}, "");
  run_to(live, 40);
  const auto history = live.histories()[0];
  const double begin = processor_seconds();
  { Recomputation recompute(plan_recompute(*history, *history, kExperts, 39)); }
  EXPECT_LT(processor_seconds() - begin, 20);
}

}  // namespace
}  // namespace moescope
