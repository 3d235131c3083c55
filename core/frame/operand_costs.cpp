#include "core/frame/operand_costs.h"

#include <algorithm>
#include <cmath>

namespace moescope {

std::vector<OperandCost> operand_costs(const TelemetryFrame& frame) {
  std::vector<OperandCost> costs;
  double sum = 0;
  for (const QuantFrame& operand : frame.quants) {
    costs.push_back({&operand});
    if (std::isfinite(operand.relative_l2)) sum += std::pow(static_cast<double>(operand.relative_l2), 2);
  }
  for (OperandCost& cost : costs)
    if (const float error = cost.operand->relative_l2; std::isfinite(error))
      cost.share = sum > 0 ? static_cast<float>(std::pow(static_cast<double>(error), 2) / sum) : 0;
  std::ranges::stable_sort(costs, [](const OperandCost& a, const OperandCost& b) {
    return is_missing(a.share) ? false : is_missing(b.share) || a.share > b.share;
  });
  return costs;
}

}  // namespace moescope
