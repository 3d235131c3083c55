#include "core/frame/operand_place.h"

namespace moescope {

std::string place_text(const OperandPlace& place) {
  const std::string layer = place.layer < 0 ? "" : "layer " + std::to_string(place.layer) + ", ";
  return layer + gemm_class_name(place.gemm_class()) + ' ' + gemm_name(place.gemm) + ", " +
         operand_name(place.operand) + ' ' + direction_name(place.direction);
}

}  // namespace moescope
