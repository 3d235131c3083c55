// Products of matrices with one order of sums on every processor.
#pragma once

#include "core/numerics/matrix.h"

namespace moescope {

// A matrix whose element (r, c) is data[r * row_step + c * col_step]: one of the steps is 1.
template <class T>
struct SteppedMatrix {
  const T* data = nullptr;
  Index row_step = 0, col_step = 0;
};

// Computes C = alpha A[m,k] B[k,n] + beta C on the calling thread. Products are summed along k in order, 256 at a time,
// each rounded before it is added; each of these sums is multiplied by alpha and added to C. Neither the width of
// vectors nor the shapes change the order, so every processor gives the same bits.
void ordered_product(double alpha, SteppedMatrix<double> a, SteppedMatrix<double> b, Index k, double beta,
                     Matrix<double> c);
void ordered_product(float alpha, SteppedMatrix<float> a, SteppedMatrix<float> b, Index k, float beta, Matrix<float> c);

}  // namespace moescope
