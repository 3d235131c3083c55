#include "core/numerics/kernels/tile_products.h"

#include <algorithm>
#include <cassert>

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>
#endif

namespace moescope {

#if defined(__x86_64__)

// GCC 12 warns of variables that its own intrinsics leave undefined.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define MOESCOPE_AVX512_BF16 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,prfchw")]]
#define MOESCOPE_AMX [[gnu::target("amx-tile,amx-bf16,prfchw")]]

namespace {

// The operands and results of a product. Kernels get a position as a row and a column, not as a copy of this struct
// that points there. A copy would be read back from memory just written, and this would wait for all earlier stores,
// including those of the last tiles.
struct TileProduct {
  const Bf16 *a, *b;
  float* c;
  Index lda, pair_stride, panel_stride, ldc;
  float scale;
  bool fetches;  // prefetch results from memory

  const Bf16* a_at(Index row) const { return a + row * lda; }
  const Bf16* b_at(Index col) const { return b + col / kUnitRows * panel_stride; }
  float* c_at(Index row, Index col) const { return c + row * ldc + col; }
  TileProduct from(Index depth) const {
    TileProduct part = *this;
    part.a += depth;
    part.b += depth / 2 * pair_stride;
    return part;
  }
};

// AVX-512 -------------------------------------------------------------------------------------------------------------

constexpr int kLanes = 16;

MOESCOPE_AVX512_BF16 inline __m512bh as_pairs(__m512i bits) {
  return reinterpret_cast<const __m512bh&>(bits);
}

// kRows x kVectors vectors of C stay in registers; each pair of B is read once. Results in memory are prefetched, so
// that they arrive during the sums.
template <int kRows, int kVectors>
MOESCOPE_AVX512_BF16 void multiply_in_registers(const TileProduct& p, Index row, Index col, Index pairs, bool adds) {
  const Bf16 *a = p.a_at(row), *b = p.b_at(col);
  float* c = p.c_at(row, col);
  if (p.fetches)
    for (Index r = 0; r < kRows; ++r)
      for (int v = 0; v < kVectors; ++v) __builtin_prefetch(c + r * p.ldc + v * kLanes, 1);
  __m512 sums[kRows][kVectors];
  for (Index r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v)
      sums[r][v] = adds ? _mm512_loadu_ps(c + r * p.ldc + v * kLanes) : _mm512_setzero_ps();
  for (Index k = 0; k < pairs; ++k) {
    __m512bh columns[kVectors];
    for (int v = 0; v < kVectors; ++v)
      columns[v] = as_pairs(_mm512_loadu_si512(b + k * p.pair_stride + v * p.panel_stride));
    for (Index r = 0; r < kRows; ++r) {
      std::int32_t pair = 0;
      std::memcpy(&pair, a + r * p.lda + 2 * k, sizeof pair);
      const __m512bh both = as_pairs(_mm512_set1_epi32(pair));
      for (int v = 0; v < kVectors; ++v) sums[r][v] = _mm512_dpbf16_ps(sums[r][v], both, columns[v]);
    }
  }
  const __m512 scale = _mm512_set1_ps(p.scale);
  for (Index r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(c + r * p.ldc + v * kLanes, _mm512_mul_ps(sums[r][v], scale));
}

template <int kRows, int kVectors>
void multiply_columns(const TileProduct& p, Index m, Index col, Index pairs, bool adds) {
  static_assert(kUnitRows % kRows == 0);
  for (Index row = 0; row < m; row += kRows) multiply_in_registers<kRows, kVectors>(p, row, col, pairs, adds);
}

// Three panels of B stay in the first-level cache for all rows of A.
constexpr Index kDepthInCache = 256;

void multiply_depth(const TileProduct& p, Index m, Index n, Index k, bool adds) {
  const Index pairs = (k + 1) / 2;
  Index col = 0;
  for (; n - col >= 3 * kLanes; col += 3 * kLanes) multiply_columns<8, 3>(p, m, col, pairs, adds);
  if (n - col == 2 * kLanes) multiply_columns<8, 2>(p, m, col, pairs, adds);
  if (n - col == kLanes) multiply_columns<16, 1>(p, m, col, pairs, adds);
}

void multiply_by_avx512(const TileProduct& p, Index m, Index n, Index k, bool adds) {
  for (Index done = 0; done < k; done += kDepthInCache) {
    TileProduct part = p.from(done);
    if (done + kDepthInCache < k) part.scale = 1;
    multiply_depth(part, m, n, std::min(kDepthInCache, k - done), adds || done > 0);
  }
}

// AMX -----------------------------------------------------------------------------------------------------------------

// Eight tiles of sixteen rows of 64 bytes. Constant, because GCC 12 does not know that all of it is read.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {kUnitRows, kUnitRows, kUnitRows, kUnitRows, kUnitRows, kUnitRows, kUnitRows, kUnitRows};
};
static_assert(sizeof(TileConfig) == 64);
constexpr TileConfig kTileConfig;

MOESCOPE_AMX void configure_tiles() {
  _tile_loadconfig(&kTileConfig);
}
// Scales the results that tiles have just stored.
MOESCOPE_AVX512_BF16 void scale_results(const TileProduct& p, Index row, Index rows, Index cols) {
  const __m512 scale = _mm512_set1_ps(p.scale);
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < cols; c += kLanes) {
      float* at = p.c_at(row + r, c);
      _mm512_storeu_ps(at, _mm512_mul_ps(_mm512_loadu_ps(at), scale));
    }
}

MOESCOPE_AMX void release_tiles() {
  _tile_release();
}

constexpr int kTileCols = 2 * kLanes;

// Prefetches results that will be stored or added to, a few rows with each of `steps` products. Without it tiles would
// wait for memory; prefetching many lines at once would delay the operands. Always inlined, because GCC 12 leaves out
// calls of functions that only prefetch.
class FetchedRows {
 public:
  [[gnu::always_inline]] FetchedRows(const float* first, Index stride, Index rows, Index steps)
      : next_(first), stride_(stride), rows_at_once_(first ? (rows + steps - 1) / steps : 0) {}
  MOESCOPE_AMX [[gnu::always_inline]] void fetch_some() {
    for (Index r = 0; r < rows_at_once_; ++r, next_ += stride_) {
      __builtin_prefetch(next_, 1);
      __builtin_prefetch(next_ + kLanes, 1);
    }
  }

 private:
  const float* next_;
  Index stride_;
  Index rows_at_once_;
};

// Tiles 0 to 3 hold C, 4 and 5 rows of A, 6 and 7 columns of B. A tile is loaded for the next products as soon as the
// last product that needs its contents has begun. B is loaded with the hint that it will not be needed again soon;
// otherwise a B with a depth of 512 would push the rows of A out of the first-level cache before the next columns need
// them.
template <int kRowTiles, int kColTiles>
MOESCOPE_AMX void multiply_in_tiles(const TileProduct& p, Index row, Index col, Index depth, bool adds,
                                    const float* fetched) {
  constexpr bool kTwoRows = kRowTiles == 2, kTwoCols = kColTiles == 2;
  const Bf16 *a = p.a_at(row), *b = p.b_at(col);
  const Index a_bytes = p.lda * sizeof(Bf16), b_bytes = p.pair_stride * sizeof(Bf16), c_bytes = p.ldc * sizeof(float);
  float *c00 = p.c_at(row, col), *c01 = c00 + kLanes, *c10 = c00 + kUnitRows * p.ldc, *c11 = c10 + kLanes;
  FetchedRows results(fetched, p.ldc, kRowTiles * kUnitRows, (depth + kUnitDepth - 1) / kUnitDepth);
  if (adds) {
    _tile_loadd(0, c00, c_bytes);
    if constexpr (kTwoCols) _tile_loadd(1, c01, c_bytes);
    if constexpr (kTwoRows) _tile_loadd(2, c10, c_bytes);
    if constexpr (kTwoRows && kTwoCols) _tile_loadd(3, c11, c_bytes);
  } else {
    _tile_zero(0);
    if constexpr (kTwoCols) _tile_zero(1);
    if constexpr (kTwoRows) _tile_zero(2);
    if constexpr (kTwoRows && kTwoCols) _tile_zero(3);
  }
  _tile_loadd(4, a, a_bytes);
  _tile_stream_loadd(6, b, b_bytes);
  if constexpr (kTwoCols) _tile_stream_loadd(7, b + p.panel_stride, b_bytes);
  if constexpr (kTwoRows) _tile_loadd(5, a + kUnitRows * p.lda, a_bytes);
  results.fetch_some();
  for (Index k = kUnitDepth; k < depth; k += kUnitDepth) {
    a += kUnitDepth;
    b += kUnitDepth / 2 * p.pair_stride;
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kTwoCols) _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(4, a, a_bytes);
    if constexpr (kTwoRows) _tile_dpbf16ps(2, 5, 6);
    _tile_stream_loadd(6, b, b_bytes);
    if constexpr (kTwoRows && kTwoCols) _tile_dpbf16ps(3, 5, 7);
    if constexpr (kTwoCols) _tile_stream_loadd(7, b + p.panel_stride, b_bytes);
    if constexpr (kTwoRows) _tile_loadd(5, a + kUnitRows * p.lda, a_bytes);
    results.fetch_some();
  }
  _tile_dpbf16ps(0, 4, 6);
  _tile_stored(0, c00, c_bytes);
  if constexpr (kTwoCols) _tile_dpbf16ps(1, 4, 7);
  if constexpr (kTwoCols) _tile_stored(1, c01, c_bytes);
  if constexpr (kTwoRows) _tile_dpbf16ps(2, 5, 6);
  if constexpr (kTwoRows) _tile_stored(2, c10, c_bytes);
  if constexpr (kTwoRows && kTwoCols) _tile_dpbf16ps(3, 5, 7);
  if constexpr (kTwoRows && kTwoCols) _tile_stored(3, c11, c_bytes);
}

template <int kRowTiles>
void multiply_tile_rows(const TileProduct& p, Index row, Index n, Index k, bool adds) {
  for (Index col = 0; col < n; col += kTileCols) {
    const Index next = adds ? col + kTileCols : col;  // results that are added to are loaded at once
    const float* fetched = p.fetches && next < n ? p.c_at(row, next) : nullptr;
    if (n - col >= kTileCols)
      multiply_in_tiles<kRowTiles, 2>(p, row, col, k, adds, fetched);
    else
      multiply_in_tiles<kRowTiles, 1>(p, row, col, k, adds, fetched);
  }
  if (p.scale != 1) scale_results(p, row, kRowTiles * kUnitRows, n);
}

// Rows of A, which are far apart in memory, stay in the first-level cache while B's panels are read in order.
void multiply_by_amx(const TileProduct& p, Index m, Index n, Index k, bool adds) {
  Index row = 0;
  for (; m - row >= 2 * kUnitRows; row += 2 * kUnitRows) multiply_tile_rows<2>(p, row, n, k, adds);
  if (row < m) multiply_tile_rows<1>(p, row, n, k, adds);
}

// Layouts -------------------------------------------------------------------------------------------------------------

// Transposes sixteen rows of sixteen words: exchanges pairs and fours of lanes, then quarters of vectors.
MOESCOPE_AVX512_BF16 inline void transpose(__m512i (&a)[16]) {
  __m512i b[16];
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
  // After this loop, quarter q of a[4i + j] holds column 4q + j of rows 4i to 4i + 3.
  for (int i = 0; i < 16; i += 4) {
    a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
    a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
    a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
    a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
  }
  for (int j = 0; j < 4; ++j) {
    b[j] = _mm512_shuffle_i32x4(a[j], a[4 + j], 0x88);
    b[4 + j] = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0x88);
    b[8 + j] = _mm512_shuffle_i32x4(a[j], a[4 + j], 0xDD);
    b[12 + j] = _mm512_shuffle_i32x4(a[8 + j], a[12 + j], 0xDD);
  }
  for (int j = 0; j < 4; ++j) {
    a[j] = _mm512_shuffle_i32x4(b[j], b[4 + j], 0x88);
    a[4 + j] = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0x88);
    a[8 + j] = _mm512_shuffle_i32x4(b[j], b[4 + j], 0xDD);
    a[12 + j] = _mm512_shuffle_i32x4(b[8 + j], b[12 + j], 0xDD);
  }
}

MOESCOPE_AVX512_BF16 inline void store_rows(const __m512i (&rows)[16], void* out, Index stride_bytes) {
  for (int i = 0; i < 16; ++i) _mm512_storeu_si512(static_cast<std::byte*>(out) + i * stride_bytes, rows[i]);
}

// Mask of the first `count` of n lanes.
inline std::uint32_t first_of(Index count, Index n) {
  return count >= n ? ~0u >> (32 - n) : (1u << std::max<Index>(count, 0)) - 1;
}

// Returns rows `row` and `row` + 1 side by side, sixteen columns from `col` on; zeros outside of the matrix.
MOESCOPE_AVX512_BF16 inline __m512i pair_at(const Matrix<const Bf16>& in, Index row, Index col, __mmask16 cols) {
  if (row >= in.rows) return _mm512_setzero_si512();
  const Bf16* upper = in.data + row * in.stride + col;
  const __m512i even_row = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(cols, upper));
  if (row + 1 == in.rows) return even_row;
  const __m512i odd = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(cols, upper + in.stride));
  return _mm512_or_si512(even_row, _mm512_slli_epi32(odd, 16));
}

MOESCOPE_AVX512_BF16 void transpose_block(const std::uint32_t* in, Index in_stride, std::uint32_t* out,
                                          Index out_stride) {
  __m512i words[16];
  for (int i = 0; i < 16; ++i) words[i] = _mm512_loadu_si512(in + i * in_stride);
  transpose(words);
  store_rows(words, out, out_stride * sizeof(std::uint32_t));
}

}  // namespace

TileProducts::TileProducts() {
  assert(has_matrix_unit());
  if (unit_ == MatrixUnit::amx) configure_tiles();
}

TileProducts::~TileProducts() {
  if (unit_ == MatrixUnit::amx) release_tiles();
}

void TileProducts::multiply(ConstMatrix<Bf16> a, const PackedMatrix& b, bool adds, Matrix<float> c, float scale,
                            Results results) const {
  assert(c.rows % kUnitRows == 0 && c.cols % kUnitRows == 0 && a.rows == c.rows && (scale == 1 || !adds));
  const TileProduct product{
      a.data, b.first, c.data, a.stride, b.pair_stride, b.panel_stride, c.stride, scale, results == Results::in_memory};
  if (unit_ == MatrixUnit::amx) return multiply_by_amx(product, c.rows, c.cols, a.cols, adds);
  multiply_by_avx512(product, c.rows, c.cols, a.cols, adds);
}

MOESCOPE_AVX512_BF16 void rows_of_transpose(ConstMatrix<Bf16> in, Bf16* out) {
  const Index depth = to_tiles(in.rows, kUnitDepth);
  for (Index c = 0; c < in.cols; c += kUnitRows) {
    const auto present_lanes = static_cast<__mmask16>(first_of(in.cols - c, kUnitRows));
    for (Index r = 0; r < depth; r += kUnitDepth) {
      __m512i words[16];
      for (int i = 0; i < 16; ++i) words[i] = pair_at(in, r + 2 * i, c, present_lanes);
      transpose(words);
      store_rows(words, out + c * depth + r, depth * sizeof(Bf16));
    }
  }
}

MOESCOPE_AVX512_BF16 void panels_of(ConstMatrix<Bf16> in, Bf16* out) {
  const Index depth = to_tiles(in.rows, kUnitDepth);
  for (Index c = 0; c < in.cols; c += kUnitRows) {
    const auto present_lanes = static_cast<__mmask16>(first_of(in.cols - c, kUnitRows));
    for (Index r = 0; r < depth; r += 2, out += 2 * kUnitRows)
      _mm512_storeu_si512(out, pair_at(in, r, c, present_lanes));
  }
}

MOESCOPE_AVX512_BF16 void panels_of_transpose(ConstMatrix<Bf16> in, Bf16* out) {
  const Index depth = to_tiles(in.cols, kUnitDepth);
  for (Index r = 0; r < in.rows; r += kUnitRows)
    for (Index c = 0; c < depth; c += kUnitDepth, out += kUnitRows * kUnitDepth) {
      const __mmask32 present_lanes = first_of(in.cols - c, kUnitDepth);
      __m512i words[16];
      for (int i = 0; i < 16; ++i)
        words[i] =
            r + i < in.rows ? _mm512_maskz_loadu_epi16(present_lanes, in.row(r + i) + c) : _mm512_setzero_si512();
      transpose(words);
      store_rows(words, out, 2 * kUnitRows * sizeof(Bf16));
    }
}

void transpose_words(const void* in, Index rows, Index cols, Index in_stride, void* out, Index out_stride) {
  const auto* from = static_cast<const std::uint32_t*>(in);
  auto* to = static_cast<std::uint32_t*>(out);
  for (Index r = 0; r < rows; r += kLanes)
    for (Index c = 0; c < cols; c += kLanes)
      transpose_block(from + r * in_stride + c, in_stride, to + c * out_stride + r, out_stride);
}

#undef MOESCOPE_AVX512_BF16
#undef MOESCOPE_AMX
#pragma GCC diagnostic pop

#else

TileProducts::TileProducts() = default;
TileProducts::~TileProducts() = default;
void TileProducts::multiply(ConstMatrix<Bf16>, const PackedMatrix&, bool, Matrix<float>, float, Results) const {
  assert(false);  // no matrix units
}
void rows_of_transpose(ConstMatrix<Bf16>, Bf16*) {
  assert(false);
}
void panels_of(ConstMatrix<Bf16>, Bf16*) {
  assert(false);
}
void panels_of_transpose(ConstMatrix<Bf16>, Bf16*) {
  assert(false);
}
void transpose_words(const void*, Index, Index, Index, void*, Index) {
  assert(false);
}

#endif

}  // namespace moescope
