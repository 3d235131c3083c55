// Products of BF16 matrices that lie in the cache, added in FP32: AMX tiles, or AVX-512's VDPBF16PS.
//
// Operands are laid out as the units read them. A first operand lies row by row. A second one lies in pairs: elements
// of rows 2i and 2i + 1 side by side, sixteen columns of them in a row. Transposing the pairs of a matrix, as words of
// 32 bits, gives its transpose row by row, and the other way round.
//
// Sums run along K in an order that follows from the unit alone, the same for every element. As in matrix_units.h,
// numbers below 2^-126 count as zero.
#pragma once

#include <cstdint>

#include "core/numerics/float_formats.h"
#include "core/numerics/matrix.h"
#include "core/numerics/matrix_units.h"

namespace moescope {

inline constexpr int kUnitRows = 16;   // of results; their columns, too
inline constexpr int kUnitDepth = 32;  // of the contracting dimension

constexpr Index to_tiles(Index n, Index tile) {
  return (n + tile - 1) / tile * tile;
}

// A second operand in pairs, of which strides are in elements.
struct PackedMatrix {
  const Bf16* first = nullptr;
  Index pair_stride = 0;   // from two rows to the next two
  Index panel_stride = 0;  // from sixteen columns to the next sixteen
};
// [rows / 2, cols, 2]
constexpr PackedMatrix paired(const Bf16* first, Index cols) {
  return {first, 2 * cols, 2 * kUnitRows};
}
// [cols / 16, depth / 2, 16, 2]: what a product reads one after the other lies so.
constexpr PackedMatrix in_panels(const Bf16* first, Index depth) {
  return {first, 2 * kUnitRows, kUnitRows * depth};
}

// Where the results of a product lie before it. Those in memory are fetched meanwhile: storing them would hold up the
// products that follow.
enum class Results : std::uint8_t { in_cache, in_memory };

// Holds the calling thread's tiles while it lives: one at a time. Needs has_matrix_unit().
class TileProducts {
 public:
  TileProducts();
  ~TileProducts();
  TileProducts(const TileProducts&) = delete;
  TileProducts& operator=(const TileProducts&) = delete;

  // C[m,n] = A[m,k] B[k,n], added to C if `adds`, otherwise times `scale`. m and n: multiples of kUnitRows; k: up to
  // the next multiple of kUnitDepth both operands hold zeros, A beyond its columns.
  void multiply(ConstMatrix<Bf16> a, const PackedMatrix& b, bool adds, Matrix<float> c, float scale = 1,
                Results results = Results::in_cache) const;

 private:
  const MatrixUnit unit_ = matrix_unit();
};

// Operands from matrices that lie row by row. They are padded with zeros to whole tiles: depth to kUnitDepth, other
// dimensions to kUnitRows.
void rows_of_transpose(ConstMatrix<Bf16> in, Bf16* out);    // [cols, depth]
void panels_of(ConstMatrix<Bf16> in, Bf16* out);            // rows: the depth
void panels_of_transpose(ConstMatrix<Bf16> in, Bf16* out);  // cols: the depth

// out[c, r] = in[r, c] of words of 32 bits: two Bf16, or a float. rows and cols: multiples of 16; strides in words.
void transpose_words(const void* in, Index rows, Index cols, Index in_stride, void* out, Index out_stride);

}  // namespace moescope
