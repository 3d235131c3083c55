// Products of matrices that are quantized as their formats say.
//
// If BF16 holds the numbers of both operands (quantize.h) and the processor has matrix units for BF16 (matrix_units.h),
// the product runs there; otherwise it runs in FP32 by sgemm. double is for gradient checks: the quantizer gets the
// values rounded to float, and products are in double.
#pragma once

#include <array>

#include "core/numerics/gemm.h"
#include "core/numerics/kernels/tile_products.h"
#include "core/numerics/operand.h"

namespace moescope {

// Scales of an operand's BF16 numbers: the quantized value is the number times `factor` and times its scale in `grid`.
struct OperandScale {
  float factor = 1;
  ScaleGrid grid{};  // scales of FP8's blocks; begins where the operand begins
};

// A quantized operand: numbers in T or in BF16, their scales, and the packed form that matrix units read.
template <class T>
struct QuantizedOperand {
  Matrix<const T> values;
  Matrix<const Bf16> bf16;  // used instead of `values`; data is nullptr if only the packed form exists
  BlockAxis axis = BlockAxis::row;
  Halves halves = Halves::none;
  Index half_begin = 0;  // rows or columns before the second half begins; negative if this is a later part of it
  std::array<OperandScale, 2> scale{};
  PackedMatrix packed{};
  bool packed_across = false;  // `packed` holds the transpose

  bool in_bf16() const { return bf16.data || packed.first; }
  Index rows() const { return in_bf16() ? bf16.rows : values.rows; }
  Index cols() const { return in_bf16() ? bf16.cols : values.cols; }
  QuantizedOperand block(Index row, Index col, Index rows, Index cols) const;
};

// Computes C = op(A) op(B), added to C if `adds`, on the calling thread. Halves of A must be side by side, halves of B
// must be stacked.
template <class T>
void multiply(Trans ta, Trans tb, const QuantizedOperand<T>& a, const QuantizedOperand<T>& b, bool adds, Matrix<T> c);
// Quantizes both operands and multiplies them: on all threads in tasks of `task_rows` rows of C, or on the calling
// thread if `task_rows` is 0.
template <class T>
void multiply(Trans ta, Trans tb, const Operand<T>& a, const Operand<T>& b, bool adds, Matrix<T> c,
              Index task_rows = 0);

// The two products of the gradient dY of Y = X W^T: dW = dY^T X and dX = dY W. dY is quantized once if both formats
// give equal numbers, as BF16 does.
template <class T>
struct GradientProducts {
  Operand<T> wgrad_dy{}, x{}, dgrad_dy{}, w{};
  Matrix<T> dw{}, dx{};                   // [outputs, inputs], [rows, inputs]
  bool adds_dw = false, adds_dx = false;  // add the product to the contents; adds_dw only if task_rows is 0
  Index task_rows = 0;                    // rows of dX per task
  int shards = 1;  // 1, 2 or 4 parts of dY's rows; each part gives a dW, and these are added pairwise
};
template <class T>
void multiply(const GradientProducts<T>& products);

// True if both formats give equal numbers and figures for a matrix, whichever of its dimensions is contracted.
bool quantize_alike(const OperandFormat& a, const OperandFormat& b);

}  // namespace moescope
