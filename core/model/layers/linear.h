// Linear layers without bias: y = x W^T.
//
// Legend: T tokens (rows), I in and O out features. Tasks depend on the shape alone. With a precision, both operands
// are quantized before the product; the product itself is in full precision.
#pragma once

#include "core/model/layers/precision.h"
#include "core/numerics/matrix.h"

namespace moescope {

// y_TO = x_TI W_OI^T, added to y if `accumulate`.
template <class T>
void linear_forward(ConstMatrix<T> x, ConstMatrix<T> w, Matrix<T> y, bool accumulate = false,
                    const LinearPrecision& precision = {});

// dW_OI = dy_TO^T x_TI, and dx_TI = dy_TO W_OI, added to dx if `accumulate`. The rows of dW have no gaps.
template <class T>
void linear_backward(ConstMatrix<T> dy, ConstMatrix<T> x, ConstMatrix<T> w, Matrix<T> dw, Matrix<T> dx,
                     bool accumulate = false, const LinearPrecision& precision = {});

}  // namespace moescope
