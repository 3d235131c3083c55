// The gated unit between the two linear layers of a feed-forward: SwiGLU, a = silu(h1) * h3 (Shazeer 2020), and
// gpt-oss's variant of it.
//
// Legend: T rows, F hidden width; a_TF. h13_T2F holds h1 and h3 side by side. silu(x) = x sigmoid(x).
#pragma once

#include "core/numerics/matrix.h"

namespace moescope {

void swiglu_forward(ConstMatrix<float> h13, Matrix<float> a);
void swiglu_forward(ConstMatrix<double> h13, Matrix<double> a);

// dh1 = da h3 s (1 + h1 (1 - s)), dh3 = da h1 s, with s = sigmoid(h1).
void swiglu_backward(ConstMatrix<float> da, ConstMatrix<float> h13, Matrix<float> dh13);
void swiglu_backward(ConstMatrix<double> da, ConstMatrix<double> h13, Matrix<double> dh13);

// gpt-oss: a = h1 sigmoid(1.702 h1) (h3 + 1) with h1 and |h3| limited to `limit`. Here the columns of h13 alternate
// between h1 and h3.
void clamped_swiglu_forward(ConstMatrix<float> h13, double limit, Matrix<float> a);

}  // namespace moescope
