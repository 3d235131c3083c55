// Operands of the two products that a gradient dY takes part in: wgrad, dY^T X, and dgrad, dY W.
#pragma once

#include "core/model/layers/product.h"

namespace moescope {

// What is quantized lies in the calling thread's scratch, one product's after the other's. Where both formats make the
// same numbers of dY, as BF16 does, it is quantized once.
template <class T>
class GradientInputs {
 public:
  // `in_bands`: on all threads.
  GradientInputs(const OperandSource<T>& wgrad_dy, const OperandSource<T>& x, const OperandSource<T>& dgrad_dy,
                 const OperandSource<T>& w, bool in_bands);

  GemmInputs<T> wgrad();  // first
  GemmInputs<T> dgrad();  // then: those of wgrad are no longer there

 private:
  OperandSource<T> wgrad_dy_, x_, dgrad_dy_, w_;
  bool in_bands_, once_;
  T* scratch_;
  GemmInput<T> taken_;
};

}  // namespace moescope
