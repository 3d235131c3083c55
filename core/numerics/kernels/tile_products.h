// Products of BF16 matrices that are in the cache, added in FP32: AMX tiles, or AVX-512's VDPBF16PS.
//
// Operands are laid out as the units read them. A first operand is stored row by row. A second operand is stored in
// pairs: the elements of rows 2i and 2i + 1 in a column are side by side, and the pairs of sixteen columns follow each
// other. Transposing the pairs of a matrix, as words of 32 bits, gives its transpose row by row, and vice versa.
//
// Sums run along K in an order that depends on the unit alone and is equal for all elements. Numbers below 2^-126 count
// as zero (matrix_units.h).
#pragma once

#include <cstdint>

#include "core/numerics/float_formats.h"
#include "core/numerics/matrix.h"
#include "core/numerics/matrix_units.h"

namespace moescope {

inline constexpr int kUnitRows = 16;   // rows and columns of a tile of results
inline constexpr int kUnitDepth = 32;  // elements of the contracting dimension in a tile

constexpr Index to_tiles(Index n, Index tile) {
  return (n + tile - 1) / tile * tile;
}

// A second operand in pairs. Strides are in elements.
struct PackedMatrix {
  const Bf16* first = nullptr;
  Index pair_stride = 0;   // from the pair of two rows to that of the next two
  Index panel_stride = 0;  // from sixteen columns to the next sixteen
};
// [rows / 2, cols, 2]
constexpr PackedMatrix paired(const Bf16* first, Index cols) {
  return {first, 2 * cols, 2 * kUnitRows};
}
// [cols / 16, depth / 2, 16, 2]: a product reads this layout from beginning to end.
constexpr PackedMatrix in_panels(const Bf16* first, Index depth) {
  return {first, 2 * kUnitRows, kUnitRows * depth};
}

// Where the elements of C are when a product begins. Results in memory are prefetched during the product, because
// storing them later would delay the next products.
enum class Results : std::uint8_t { in_cache, in_memory };

// Owns the tiles of the calling thread; one object per thread at a time. Needs has_matrix_unit().
class TileProducts {
 public:
  TileProducts();
  ~TileProducts();
  TileProducts(const TileProducts&) = delete;
  TileProducts& operator=(const TileProducts&) = delete;

  // Computes A[m,k] B[k,n]. Adds it to C[m,n] if `adds`, otherwise stores it in C times `scale`. m and n must be
  // multiples of kUnitRows. Beyond k, up to the next multiple of kUnitDepth, the memory of both operands must hold
  // zeros: in A behind the columns of each row, in B below its rows.
  void multiply(ConstMatrix<Bf16> a, const PackedMatrix& b, bool adds, Matrix<float> c, float scale = 1,
                Results results = Results::in_cache) const;

 private:
  const MatrixUnit unit_ = matrix_unit();
};

// Build operands from matrices that are stored row by row, padded with zeros to whole tiles: depth to kUnitDepth, other
// dimensions to kUnitRows.
void rows_of_transpose(ConstMatrix<Bf16> in, Bf16* out);    // [cols, depth]
void panels_of(ConstMatrix<Bf16> in, Bf16* out);            // the rows are the depth
void panels_of_transpose(ConstMatrix<Bf16> in, Bf16* out);  // the columns are the depth

// Computes out[c, r] = in[r, c] of words of 32 bits: two Bf16, or a float. rows and cols are multiples of 16; strides
// are in words.
void transpose_words(const void* in, Index rows, Index cols, Index in_stride, void* out, Index out_stride);

}  // namespace moescope
