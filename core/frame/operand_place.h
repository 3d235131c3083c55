// Names an operand of a GEMM of the model, for QuantFrames and captures.
#pragma once

#include <string>

#include "core/numerics/gemm_operand.h"

namespace moescope {

struct OperandPlace {
  int layer = 0;  // -1 if not of a layer (head)
  Gemm gemm = Gemm::expert_w1;
  OperandRole operand = OperandRole::x;
  Direction direction = Direction::forward;
  GemmClass gemm_class() const { return gemm_class_of(gemm); }
  bool operator==(const OperandPlace&) const = default;
};

// "layer 3, experts w1, x forward"
inline std::string place_text(const OperandPlace& place) {
  const std::string layer = place.layer < 0 ? "" : "layer " + std::to_string(place.layer) + ", ";
  return layer + gemm_class_name(place.gemm_class()) + ' ' + gemm_name(place.gemm) + ", " +
         operand_name(place.operand) + ' ' + direction_name(place.direction);
}

}  // namespace moescope
