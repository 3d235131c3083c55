// Matrix products by OpenBLAS, or in one order on every processor (PortableProducts in matrix_units.h). Each runs on
// the calling thread alone.
#pragma once

#include "core/numerics/float_formats.h"
#include "core/numerics/kernels/tile_products.h"
#include "core/numerics/matrix.h"

namespace moescope {

enum class Trans { no, yes };

// Computes C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * C. The shapes of A, B and C must agree.
void gemm(Trans ta, Trans tb, float alpha, ConstMatrix<float> a, ConstMatrix<float> b, float beta, Matrix<float> c);
void gemm(Trans ta, Trans tb, double alpha, ConstMatrix<double> a, ConstMatrix<double> b, double beta,
          Matrix<double> c);

// Returns k of a product whose first operand is op(a).
template <class T>
Index contracted(Trans ta, const Matrix<T>& a) {
  return ta == Trans::yes ? a.rows : a.cols;
}

// Products of BF16 matrices on the processor's matrix units, added in FP32. Each runs on the calling thread alone.
// Computes gemm.h's product with beta 0 or 1. Needs has_matrix_unit(). The order of an element's sum depends on k and
// the unit alone.
void gemm(Trans ta, Trans tb, float alpha, ConstMatrix<Bf16> a, ConstMatrix<Bf16> b, float beta, Matrix<float> c);

// The product in two steps, for a second operand that several products use. pack() writes it into `panels`, which holds
// panel_elements(n, k) elements and begins on a cache line. A product may have a smaller n, and a k that is smaller by
// a multiple of kUnitDepth.
constexpr Index panel_elements(Index n, Index k) {
  return to_tiles(n, kUnitRows) * to_tiles(k, kUnitDepth);
}
PackedMatrix pack(Trans tb, ConstMatrix<Bf16> b, Bf16* panels);
void gemm(Trans ta, float alpha, ConstMatrix<Bf16> a, const PackedMatrix& b, float beta, Matrix<float> c);

}  // namespace moescope
