// Products of few rows with weights that lie mapped in BF16, read once and straight from their pages: what writing a
// text on token by token spends its time on.
#pragma once

#include <cstddef>

#include "core/numerics/matrix.h"

namespace moescope {

// y_TO = x_TI W_OI^T, where W's numbers lie at `weights` row by row, two bytes each, on even addresses. False: its
// pages are not there any more. On the calling thread.
[[nodiscard]] bool bf16_dots(ConstMatrix<float> x, const std::byte* weights, Matrix<float> y);

}  // namespace moescope
