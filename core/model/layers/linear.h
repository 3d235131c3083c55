// Linear layers without bias: y = x W^T.
//
// Legend: T tokens (rows), in and out features; all matrices row-major and contiguous. Tiles depend on the shape alone.
// With a precision, both operands are quantized before the product, which itself is in full precision.
#pragma once

#include "core/model/layers/precision.h"

namespace moescope {

// y_TO = x_TI W_OI^T, added to what y holds if `accumulate`.
template <class T>
void linear_forward(const T* x, int rows, int in, const T* w, int out, T* y, bool accumulate = false,
                    const LinearPrecision& precision = {});

// dW_OI = dy_TO^T x_TI, and dx_TI = dy_TO W_OI, added to what dx holds if `accumulate`.
template <class T>
void linear_backward(const T* dy, int rows, int out, const T* x, const T* w, int in, T* dw, T* dx,
                     bool accumulate = false, const LinearPrecision& precision = {});

}  // namespace moescope
