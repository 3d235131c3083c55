// FP32 to BF16 by the processor's own instruction, where it has one.
#pragma once

#include <cstddef>

#include "core/numerics/float_formats.h"
#include "core/numerics/matrix.h"

namespace moescope {

// VCVTNEPS2BF16, which is part of AVX-512's BF16 units.
bool can_narrow_natively();

// To nearest, ties to even; magnitudes below 2^-126 become zeros of their sign, NaN a quiet one.
void narrow_natively(const float* in, std::size_t n, Bf16* out);

// Two rows side by side, element by element, as matrix units take a second operand: out[2i] and out[2i + 1].
void narrow_pair_natively(const float* upper, const float* lower, std::size_t n, Bf16* out);

// Rows of a second operand into its panels (tile_products.h), padded with zeros to whole tiles. `out`: where the first
// two rows go in the first panel; panel_stride: PackedMatrix's. False: a number that is not 0 is below 2^-126.
bool narrow_to_panels(ConstMatrix<float> rows, Bf16* out, Index panel_stride);

}  // namespace moescope
