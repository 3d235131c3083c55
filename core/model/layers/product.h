// Products of the model's matrices: operands are quantized as their formats say, then multiplied.
//
// Where both operands are numbers that BF16 has (operand_format.h) and the processor has matrix units for them
// (matrix_units.h), they are multiplied there; otherwise as FP32 by sgemm. double is for gradient checks: quantization
// sees the values rounded to float, and products are in double.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "core/numerics/gemm.h"
#include "core/numerics/kernels/tile_products.h"
#include "core/numerics/operand_format.h"

namespace moescope {

// One matrix of an operand, before it is quantized.
template <class T>
struct OperandPart {
  const T* in = nullptr;
  RoundingKey key;
  QuantSums* sums = nullptr;  // nullptr: nobody counts
};

// An operand: a matrix, or two of one shape and format that are multiplied as one, each with scales, random bits and
// sums of its own: w1 above w3, or the gradients of their outputs side by side.
template <class T>
struct OperandSource {
  const OperandFormat* format = nullptr;  // nullptr: values as they are
  BlockAxis axis = BlockAxis::row;
  int rows = 0, cols = 0;  // of one part
  int stride = 0;
  int parts = 1;
  std::array<OperandPart<T>, 2> part;
};

// Which scale of a grid an element has, along one dimension: every `block` elements of a part share one.
struct ScalePlaces {
  int block = std::numeric_limits<int>::max(), part = std::numeric_limits<int>::max();
  int per_part = 1;  // scales
  int first = 0;     // element of the grid's matrix that is this operand's first

  int index(int i) const { return (first + i) / part * per_part + (first + i) % part / block; }
  int left(int i) const {  // elements from `i` on that have the same
    const int in_part = (first + i) % part;
    return std::min(part - in_part, block - in_part % block);
  }
};

// An operand as multiply() takes it: numbers in T or in BF16, and what their products are scaled by.
template <class T>
struct GemmInput {
  const T* values = nullptr;
  const Bf16* bf16 = nullptr;  // in place of values
  int stride = 0;
  int cut = std::numeric_limits<int>::max();  // row of a second operand, stored column of a first, from which on
  std::array<float, 2> scale{1, 1};           // the second scale holds
  const float* grid = nullptr;                // of FP8's blocks: [along the contracting dimension, across it]
  std::size_t grid_stride = 0;
  ScalePlaces along, across;
  bool along_columns = true;
  PairedOperand panels{};      // of a second operand that was laid out for matrix units, as well as bf16 or alone
  bool panels_across = false;  // the transpose was laid out

  GemmInput from(int row, int column) const;  // without the rows and columns before
};

template <class T>
struct GemmInputs {
  GemmInput<T> a, b;
};

// Elements of T that quantized() needs for both.
template <class T>
std::size_t scratch_for(const OperandSource<T>& a, const OperandSource<T>& b);

// Both operands of a product, on the calling thread or, `in_bands`, on all. What was quantized lies in `scratch`.
template <class T>
GemmInputs<T> quantized(const OperandSource<T>& a, const OperandSource<T>& b, bool in_bands, T* scratch);

// The same after a product that took `a`, too, and left it at the beginning of `scratch`: it is quantized again only if
// it is multiplied by another unit there. It is not counted again.
template <class T>
GemmInputs<T> quantized_after(const GemmInput<T>& taken, const OperandSource<T>& a, const OperandSource<T>& b,
                              bool in_bands, T* scratch);

// Lays out the second operand of several products on all threads, where matrix units multiply and it has one scale.
// Valid until the calling thread's next call.
template <class T>
void lay_out_second(Trans tb, int n, int k, GemmInput<T>& b);

// C[m,n] = op(A)[m,k] op(B)[k,n], added to C if `adds`. Of two-part operands the parts of A lie side by side, those of
// B above each other.
template <class T>
void multiply(Trans ta, Trans tb, int m, int n, int k, const GemmInput<T>& a, const GemmInput<T>& b, bool adds, T* c,
              int ldc);

}  // namespace moescope
