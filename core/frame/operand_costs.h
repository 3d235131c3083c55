// The relative error of every quantized operand of a step, largest first.
#pragma once

#include <vector>

#include "core/frame/frame.h"

namespace moescope {

struct OperandCost {
  const QuantFrame* operand = nullptr;  // points into the frame
  // Modelled: |x - q|^2 / |x|^2 of this operand divided by the sum over all operands. To first order a product's
  // relative error is the sum of its operands' relative errors, and rounding errors are nearly independent, so that
  // their squares add up. All GEMMs count equally, whatever part of the gradient passes through them.
  float share = kNoValue;
};

// Operands without a relative error (imported figures) come last and have no share.
std::vector<OperandCost> operand_costs(const TelemetryFrame& frame);

}  // namespace moescope
