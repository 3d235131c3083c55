// The effects of rounding single operands on a training step.
#pragma once

#include <string>
#include <vector>

#include "core/frame/frame.h"
#include "core/numerics/gemm_operand.h"

namespace moescope {

// The effect on a training step of rounding a single operand, for each operand. Measured by
// core/training/operand_scan.h.
// An operand of one GEMM, of all weights of one class in one layer.
struct OperandEffect {
  int layer = 0;  // -1 for the head
  GemmClass gemm_class = GemmClass::experts;
  OperandRole operand = OperandRole::x;
  Direction gemm = Direction::forward;
  std::string recipe;         // recipe that rounded it
  double gradient_error = 0;  // |g - g0| / |g0| over all weights' gradients, g0 in FP32
  double loss_change = 0;     // change of the batch's cross-entropy against FP32, nats per token; 0 for dgrad and wgrad
  double share = 0;           // share of the sum of all gradient_error^2; 0 if no operand has an error
};

struct OperandScan {
  std::vector<OperandEffect> effects;  // by gradient error, largest first
  double loss = 0;                     // loss in FP32, nats per token
  double all_gradient_error = 0;       // gradient error with all of these operands rounded
  double all_loss_change = 0;
};

}  // namespace moescope
