// General matrix products by OpenBLAS, each on the calling thread alone.
#pragma once

#include "core/numerics/matrix.h"

namespace moescope {

enum class Trans { no, yes };

// C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * C; the shapes of A, B and C agree.
void gemm(Trans ta, Trans tb, float alpha, ConstMatrix<float> a, ConstMatrix<float> b, float beta, Matrix<float> c);
void gemm(Trans ta, Trans tb, double alpha, ConstMatrix<double> a, ConstMatrix<double> b, double beta,
          Matrix<double> c);

// k of such a product.
template <class T>
Index contracted(Trans ta, const Matrix<T>& a) {
  return ta == Trans::yes ? a.rows : a.cols;
}

}  // namespace moescope
