// Names an operand of a GEMM of the model: QuantFrames are of operands, and captures.
#pragma once

#include <string>

#include "core/telemetry/frame/frame.h"

namespace moescope {

struct OperandPlace {
  int layer = 0;  // -1: not of a layer (head)
  GemmClass gemm_class = GemmClass::experts;
  std::string gemm = "w1";  // gemm_name()
  Operand operand = Operand::x;
  Direction direction = Direction::forward;
  bool operator==(const OperandPlace&) const = default;
};

OperandPlace place_of(const QuantFrame& quant);
std::string place_text(const OperandPlace& place);  // "layer 3, experts w1, x forward"

}  // namespace moescope
