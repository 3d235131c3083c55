// fp32 and bf16: values that are copied or rounded one by one, without scales.
#pragma once

#include "core/numerics/kernels/operand_kernels.h"

namespace moescope {

void copy_values(const Tile& tile, QuantSums* sums);
void round_values_bf16(const Tile& tile, Rounding rounding, QuantSums* sums);

}  // namespace moescope
