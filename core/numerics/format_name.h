// Names of operand formats, as recordings, logs and the screen have them: core/telemetry/frame/quant_format.h lists
// them.
#pragma once

#include <string>

#include "core/numerics/operand_format.h"

namespace moescope {

// "mxfp8_e4m3_rceil", "nvfp4", "fp8_e4m3_1x128_stochastic". MX in blocks of 32, the standard's. A rotation is not
// named.
std::string format_name(const OperandFormat& format);

}  // namespace moescope
