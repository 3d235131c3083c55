// Matrix products by OpenBLAS. Each runs on the calling thread alone.
#pragma once

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

}  // namespace moescope
