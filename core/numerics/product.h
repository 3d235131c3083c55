// Products of matrices that are quantized as their formats say.
//
// Where both operands are numbers that BF16 has (quantize.h) and the processor has matrix units for them
// (matrix_units.h), they are multiplied there; otherwise as FP32 by sgemm. double is for gradient checks: quantization
// sees the values rounded to float, and products are in double.
#pragma once

#include <array>

#include "core/numerics/gemm.h"
#include "core/numerics/kernels/tile_products.h"
#include "core/numerics/operand.h"

namespace moescope {

// What products of an operand's numbers in BF16 are scaled by.
struct OperandScale {
  float factor = 1;
  ScaleGrid grid{};  // of FP8's blocks; it begins where the operand does
};

// An operand after its quantization: numbers in T or in BF16, their scales, and the packed form that matrix units take.
template <class T>
struct QuantizedOperand {
  Matrix<const T> values;
  Matrix<const Bf16> bf16;  // in their place; without memory if there is but the packed form
  BlockAxis axis = BlockAxis::row;
  Halves halves = Halves::none;
  Index half = 0;  // rows or columns that are left of the first half
  std::array<OperandScale, 2> scale{};
  PackedMatrix packed{};
  bool packed_across = false;  // the transpose was packed

  bool in_bf16() const { return bf16.data || packed.first; }
  Index rows() const { return in_bf16() ? bf16.rows : values.rows; }
  Index cols() const { return in_bf16() ? bf16.cols : values.cols; }
  QuantizedOperand block(Index row, Index col, Index rows, Index cols) const;
};

// C = op(A) op(B), added to what C holds if `adds`, on the calling thread. The halves of A lie side by side, those of B
// above each other.
template <class T>
void multiply(Trans ta, Trans tb, const QuantizedOperand<T>& a, const QuantizedOperand<T>& b, bool adds, Matrix<T> c);
// Quantizes both and multiplies them; on all threads in tasks of `task_rows` rows of C, or with 0 on the calling one.
template <class T>
void multiply(Trans ta, Trans tb, const Operand<T>& a, const Operand<T>& b, bool adds, Matrix<T> c,
              Index task_rows = 0);

// The two products that the gradient dY of Y = X W^T takes part in: dW = dY^T X and dX = dY W. Where both formats make
// the same numbers of dY, as BF16 does, it is quantized once.
template <class T>
struct GradientProducts {
  Operand<T> wgrad_dy{}, x{}, dgrad_dy{}, w{};
  Matrix<T> dw{}, dx{};
  bool adds_dw = false, adds_dx = false;  // to what they hold
  Index task_rows = 0;                    // of dX, as above
  int shards = 1;  // 1, 2 or 4 parts of dY's rows, of which each sums its own dW; these are then added pairwise
};
template <class T>
void multiply(const GradientProducts<T>& products);

// Every number by itself, without a scale or a random bit.
bool is_nearest_bf16(const OperandFormat& format);
// Whether both make the same numbers of a matrix, with the same figures, whichever way the contracting dimension lies.
bool quantize_alike(const OperandFormat& a, const OperandFormat& b);

}  // namespace moescope
