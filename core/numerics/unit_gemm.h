// General products of BF16 matrices on the processor's matrix units, added in FP32, each on the calling thread alone.
#pragma once

#include "core/numerics/float_formats.h"
#include "core/numerics/gemm.h"
#include "core/numerics/kernels/tile_products.h"

namespace moescope {

// gemm.h's product. beta: 0 or 1. Needs has_matrix_unit(). The order of an element's sum follows from k and the unit
// alone.
void gemm(Trans ta, Trans tb, float alpha, ConstMatrix<Bf16> a, ConstMatrix<Bf16> b, float beta, Matrix<float> c);

// The same in two steps, for a second operand of several products: packed into `panels`, of panel_elements(n, k), which
// have to begin on a cache line; n and k of the products may be less, k by whole kUnitDepth.
constexpr Index panel_elements(Index n, Index k) {
  return to_tiles(n, kUnitRows) * to_tiles(k, kUnitDepth);
}
PackedMatrix pack(Trans tb, ConstMatrix<Bf16> b, Bf16* panels);
void gemm(Trans ta, float alpha, ConstMatrix<Bf16> a, const PackedMatrix& b, float beta, Matrix<float> c);

}  // namespace moescope
