// Products of BF16 matrices that lie in the cache, added in FP32: AMX tiles, or AVX-512's VDPBF16PS.
//
// For loops that make their operands piece by piece and multiply them at once, as attention does: the operands are laid
// out here as the units read them, so that nothing is rearranged before each product. A first operand lies row by row.
// A second one lies in pairs: elements of rows 2i and 2i + 1 side by side, [rows / 2, columns, 2]. Transposing the
// pairs of a matrix, as words of 32 bits, gives its transpose row by row, and the other way round.
//
// Sums run along K in an order that follows from the unit alone. As in matrix_units.h, numbers below 2^-126 count as
// zero: narrowing turns them into zeros.
#pragma once

#include <cstddef>

#include "core/numerics/float_formats.h"
#include "core/numerics/matrix_units.h"

namespace moescope {

inline constexpr int kUnitRows = 16;   // of results; their columns, too
inline constexpr int kUnitDepth = 32;  // of the contracting dimension

constexpr int to_tiles(int n, int tile) {
  return (n + tile - 1) / tile * tile;
}

// Holds the calling thread's tiles while it lives. Needs has_matrix_unit().
class TileProducts {
 public:
  TileProducts();
  ~TileProducts();
  TileProducts(const TileProducts&) = delete;
  TileProducts& operator=(const TileProducts&) = delete;

  // C[m,n] = A[m,k] B[k,n], added to C if `adds`. m and n: multiples of kUnitRows; k: up to the next multiple of
  // kUnitDepth both operands hold zeros. lda, ldc: elements from row to row; ldb: from pair of rows to pair of rows.
  void multiply(int m, int n, int k, const Bf16* a, int lda, const Bf16* b, int ldb, bool adds, float* c,
                int ldc) const;

 private:
  const MatrixUnit unit_ = matrix_unit();
};

// out[c, r] = in[r, c] of words of 32 bits: two Bf16, or a float. rows and cols: multiples of 16; strides in words.
void transpose_words(const void* in, int rows, int cols, int in_stride, void* out, int out_stride);

}  // namespace moescope
