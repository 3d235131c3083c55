// Converts FP32 to BF16 with the processor's own instruction, if it has one.
#pragma once

#include <cstddef>

#include "core/numerics/float_formats.h"
#include "core/numerics/matrix.h"

namespace moescope {

// True if the processor has VCVTNEPS2BF16, which is part of AVX-512's BF16 units.
bool can_narrow_natively();

// Rounds to nearest, ties to even. Magnitudes below 2^-126 become zeros with their sign, a NaN becomes a quiet NaN.
void narrow_natively(const float* in, std::size_t n, Bf16* out);

// Interleaves two rows as matrix units read a second operand: out[2i] from `upper`, out[2i + 1] from `lower`.
void narrow_pair_natively(const float* upper, const float* lower, std::size_t n, Bf16* out);

// Writes rows of a second operand into its panels (tile_products.h), padded with zeros to whole tiles. `out` is the
// place of the first two rows in the first panel; panel_stride is PackedMatrix's. Returns false if a number other than
// 0 is below 2^-126.
bool narrow_to_panels(ConstMatrix<float> rows, Bf16* out, Index panel_stride);

}  // namespace moescope
