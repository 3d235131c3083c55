// Which operand hurts: what every quantized operand of a step loses, costliest first.
#pragma once

#include <vector>

#include "core/frame/frame.h"

namespace moescope {

struct OperandCost {
  const QuantFrame* operand = nullptr;  // in the frame
  // Modelled: |x - q|^2 / |x|^2 of this operand over the sum of that over all. To first order a product's relative
  // error is the sum of its operands' relative errors, and errors of roundings are nearly independent, so that their
  // squares add up; all GEMMs count alike here, whatever part of the gradient passes through them.
  float share = kNoValue;
};

// Operands without a relative error (imported figures) come last, without a share.
std::vector<OperandCost> operand_costs(const TelemetryFrame& frame);

}  // namespace moescope
