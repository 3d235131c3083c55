// General products of BF16 matrices on the processor's matrix units, added in FP32, each on the calling thread alone.
#pragma once

#include <cstddef>

#include "core/numerics/float_formats.h"
#include "core/numerics/gemm.h"
#include "core/numerics/kernels/tile_products.h"

namespace moescope {

// gemm.h's product. beta: 0 or 1. Needs has_matrix_unit(). The order of an element's sum follows from k and the unit
// alone.
void gemm(Trans ta, Trans tb, int m, int n, int k, float alpha, const Bf16* a, int lda, const Bf16* b, int ldb,
          float beta, float* c, int ldc);

// The same in two steps, for a second operand of several products: laid out in `panels`, of panel_elements(n, k), which
// have to begin on a cache line; `n` and `k` of the products may be less, k by whole kUnitDepth.
constexpr std::size_t panel_elements(int n, int k) {
  return static_cast<std::size_t>(to_tiles(n, kUnitRows)) * static_cast<std::size_t>(to_tiles(k, kUnitDepth));
}
PairedOperand lay_out(Trans tb, int n, int k, const Bf16* b, int ldb, Bf16* panels);
void gemm(Trans ta, int m, int n, int k, float alpha, const Bf16* a, int lda, const PairedOperand& b, float beta,
          float* c, int ldc);

}  // namespace moescope
