#include <gtest/gtest.h>

#include "core/frame/operand_costs.h"

namespace moescope {
namespace {

QuantFrame operand(OperandRole which, Direction direction, float relative_l2) {
  QuantFrame frame;
  frame.layer = 2;
  frame.operand = which;
  frame.direction = direction;
  frame.relative_l2 = relative_l2;
  return frame;
}

TEST(OperandCosts, AreSharesOfTheErrorsPowerCostliestFirst) {
  TelemetryFrame frame;
  frame.quants = {operand(OperandRole::x, Direction::forward, 0.1f), operand(OperandRole::w, Direction::forward, 0),
                  operand(OperandRole::dy, Direction::wgrad, 0.3f),
                  operand(OperandRole::x, Direction::wgrad, kNoValue)};
  const auto costs = operand_costs(frame);
  ASSERT_EQ(costs.size(), 4u);
  EXPECT_EQ(costs[0].operand, &frame.quants[2]);
  EXPECT_NEAR(costs[0].share, 0.9, 1e-6) << "0.09 of 0.09 + 0.01";
  EXPECT_EQ(costs[1].operand, &frame.quants[0]);
  EXPECT_NEAR(costs[1].share, 0.1, 1e-6);
  EXPECT_EQ(costs[2].operand, &frame.quants[1]) << "exact";
  EXPECT_EQ(costs[2].share, 0);
  EXPECT_TRUE(is_missing(costs[3].share)) << "not known";
}

TEST(OperandCosts, OfAnExactStepAreNothing) {
  TelemetryFrame frame;
  EXPECT_TRUE(operand_costs(frame).empty());
  frame.quants = {operand(OperandRole::x, Direction::forward, 0)};
  EXPECT_EQ(operand_costs(frame)[0].share, 0);
}

}  // namespace
}  // namespace moescope
