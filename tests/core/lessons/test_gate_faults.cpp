// The regression gate on trained runs: a small part of tests/benchmarks/bench_gate.cpp.
#include <gtest/gtest.h>

#include "tests/support/gate_faults.h"

namespace moescope {
namespace {

TEST(GateFaults, ExpertGradientsTimesTheRanksDifferEqualRunsAreTheSame) {
  constexpr std::int64_t kSteps = 120, kFaultStep = 60;
  const std::vector<GateFault> faults = exhibits_as_faults();
  const auto fault = std::ranges::find(faults, "Expert gradients times the ranks: added-up", &GateFault::name);
  ASSERT_NE(fault, faults.end());
  ASSERT_TRUE(is_live(*fault));
  const HistoryPtr good[] = {train_with_fault(*fault, {11}, kSteps, {}), train_with_fault(*fault, {12}, kSteps, {})};
  const GateReport equal = judge_gate(train_with_fault(*fault, {13}, kSteps, {}), good);
  EXPECT_EQ(equal.verdict, GateVerdict::same) << gate_sentence(equal);
  const GateReport faulty = judge_gate(train_with_fault(*fault, {13}, kSteps, kFaultStep), good);
  ASSERT_EQ(faulty.verdict, GateVerdict::differs);
  const GateExit& first = faulty.exits.front();
  EXPECT_EQ(faulty.series[first.series].figure.info, &metric_info(Metric::grad_norm)) << gate_sentence(faulty);
  EXPECT_NEAR(first.first_step(), kFaultStep, 10);
  ASSERT_FALSE(faulty.settings.empty());
  EXPECT_EQ(setting_text(faulty.settings.front()), "optimizer.fault_expert_gradient: 8 (good runs: 1), since step 60");
}

}  // namespace
}  // namespace moescope
