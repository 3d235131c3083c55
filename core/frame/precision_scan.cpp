#include "core/frame/precision_scan.h"

#include <algorithm>

namespace moescope {

std::string twin_name(const PrecisionTwin& twin) {
  if (twin.scope == PrecisionTwin::Scope::all_operands) return "all operands";
  const std::string layer = twin.scope == PrecisionTwin::Scope::all_layers ? "all layers, "
                            : twin.layer < 0                               ? ""
                                             : "layer " + std::to_string(twin.layer) + ", ";
  return layer + gemm_class_name(twin.gemm_class) + ", " + operand_name(twin.operand);
}

const PrecisionTwin* PrecisionScan::costliest() const {
  const auto found = std::ranges::find(twins, PrecisionTwin::Scope::one_layer, &PrecisionTwin::scope);
  return found == twins.end() ? nullptr : &*found;
}

}  // namespace moescope
