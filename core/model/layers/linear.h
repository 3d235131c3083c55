// Linear layers: y = x W^T.
//
// Legend: T tokens (rows), I in and O out features. The division into tasks depends on the shape alone. With a
// precision, both operands are quantized before the product; the product itself is computed in full precision.
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

// Interface of a linear layer in a forward pass. Its weight is in memory (MasterLinear) or in a file
// (core/checkpoints/stored_matrix.h).
template <class T>
class LinearLayer {
 public:
  virtual ~LinearLayer() = default;
  // y_TO = x_TI W_OI^T + b, added to y if `accumulate`.
  virtual void forward(ConstMatrix<T> x, Matrix<T> y, bool accumulate) const = 0;
};

// A linear layer in training, without a bias. The weight and the objects to which `precision` refers must outlive it.
template <class T>
class MasterLinear final : public LinearLayer<T> {
 public:
  MasterLinear(ConstMatrix<T> w, const LinearPrecision& precision) : w_(w), precision_(precision) {}
  void forward(ConstMatrix<T> x, Matrix<T> y, bool accumulate) const override {
    linear_forward<T>(x, w_, y, accumulate, precision_);
  }

 private:
  Matrix<const T> w_;
  LinearPrecision precision_;
};

}  // namespace moescope
