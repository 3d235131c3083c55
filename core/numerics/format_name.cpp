#include "core/numerics/format_name.h"

#include <cassert>

namespace moescope {
namespace {

std::string mx_name(const OperandFormat& format) {
  assert(format.block == 32);
  const std::string bits = std::to_string(traits(format.element).bits);
  const std::string element =
      format.element == ElementFormat::int8 ? "mxint8" : "mxfp" + bits + "_" + element_name(format);
  return element + "_" + scale_rule_name(format.rule);
}

std::string fp8_name(const OperandFormat& format) {
  constexpr const char* kShares[] = {"tensor", "row", "1x128", "128x128"};
  return std::string("fp8_") + element_name(format) + "_" + kShares[static_cast<int>(format.granularity)];
}

std::string plain_name(const OperandFormat& format) {
  switch (format.scheme) {
    case QuantScheme::mx:
      return mx_name(format);
    case QuantScheme::fp8:
      return fp8_name(format);
    case QuantScheme::nvfp4:
      return "nvfp4";
    case QuantScheme::fp32:
    case QuantScheme::bf16:
      break;
  }
  return element_name(format);
}

}  // namespace

std::string format_name(const OperandFormat& format) {
  const bool drawn = format.rounding == Rounding::stochastic && format.scheme != QuantScheme::fp32;
  return plain_name(format) + (drawn ? "_stochastic" : "");
}

}  // namespace moescope
