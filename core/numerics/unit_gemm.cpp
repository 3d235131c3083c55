#include "core/numerics/unit_gemm.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "core/numerics/aligned_buffer.h"
#include "core/numerics/kernels/tile_products.h"
#include "core/numerics/size.h"

namespace moescope {
namespace {

// Of the calling thread, apart from thread_scratch, which holds the operands.
struct GemmBuffers {
  AlignedBuffer<Bf16> rows, panels;
  AlignedBuffer<float> c;
};
GemmBuffers& buffers() {
  thread_local GemmBuffers own;
  return own;
}

// Rows of a first operand, as they lie or padded with zeros.
struct FirstOperand {
  const Bf16* rows;
  int stride;
};

Bf16* padded_rows(const Bf16* a, int lda, int m, int k, int depth) {
  Bf16* rows = buffers().rows.of(size(to_tiles(m, kUnitRows)) * size(depth));
  for (int r = 0; r < to_tiles(m, kUnitRows); ++r) {
    Bf16* to = rows + size(r) * size(depth);
    const int there = r < m ? k : 0;
    std::copy_n(a + (there > 0 ? size(r) * size(lda) : 0), there, to);
    std::fill(to + there, to + depth, Bf16{0});
  }
  return rows;
}

void add_or_store(const float* from, int count, bool adds, float* to) {
  for (int i = 0; i < count; ++i) to[i] = adds ? to[i] + from[i] : from[i];
}

// Rows and columns that fill no tile go through memory that has whole ones.
void multiply_ragged(const TileProducts& tiles, int m, int n, int k, const FirstOperand& a, const PairedOperand& b,
                     float scale, bool adds, float* c, int ldc) {
  constexpr int kRowsAtATime = 64;
  const int cols = to_tiles(n, kUnitRows);
  float* whole = buffers().c.of(size(kRowsAtATime) * size(cols));
  for (int row = 0; row < m; row += kRowsAtATime) {
    const int rows = std::min(kRowsAtATime, m - row);
    tiles.multiply(to_tiles(rows, kUnitRows), cols, k, a.rows + size(row) * size(a.stride), a.stride, b, false, whole,
                   cols, scale);
    for (int r = 0; r < rows; ++r) add_or_store(whole + size(r) * size(cols), n, adds, c + size(row + r) * size(ldc));
  }
}

void multiply_scaled(Trans ta, int m, int n, int k, float scale, const Bf16* a, int lda, const PairedOperand& b,
                     bool adds, float* c, int ldc) {
  const int depth = to_tiles(k, kUnitDepth);
  const TileProducts tiles;
  FirstOperand first{a, lda};
  bool padded = true;
  if (ta == Trans::yes) {
    Bf16* rows = buffers().rows.of(size(to_tiles(m, kUnitRows)) * size(depth));
    rows_of_transpose(a, k, m, lda, rows);
    first = {rows, depth};
  } else if (k < depth) {
    first = {padded_rows(a, lda, m, k, depth), depth};
  } else {
    padded = false;
  }
  const int whole = n % kUnitRows == 0 ? m / kUnitRows * kUnitRows : 0, left = m - whole;
  if (whole > 0) tiles.multiply(whole, n, k, first.rows, first.stride, b, adds, c, ldc, scale, Results::in_memory);
  if (left == 0) return;
  FirstOperand rest{first.rows + size(whole) * size(first.stride), first.stride};
  if (!padded) rest = {padded_rows(rest.rows, lda, left, k, depth), depth};
  multiply_ragged(tiles, left, n, k, rest, b, scale, adds, c + size(whole) * size(ldc), ldc);
}

}  // namespace

PairedOperand lay_out(Trans tb, int n, int k, const Bf16* b, int ldb, Bf16* panels) {
  if (tb == Trans::yes)
    panels_of_transpose(b, n, k, ldb, panels);
  else
    panels_of(b, k, n, ldb, panels);
  return in_panels(panels, to_tiles(k, kUnitDepth));
}

void gemm(Trans ta, Trans tb, int m, int n, int k, float alpha, const Bf16* a, int lda, const Bf16* b, int ldb,
          float beta, float* c, int ldc) {
  Bf16* panels = buffers().panels.of(panel_elements(n, k));
  gemm(ta, m, n, k, alpha, a, lda, lay_out(tb, n, k, b, ldb, panels), beta, c, ldc);
}

void gemm(Trans ta, int m, int n, int k, float alpha, const Bf16* a, int lda, const PairedOperand& b, float beta,
          float* c, int ldc) {
  assert(beta == 0 || beta == 1);
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (int r = 0; beta == 0 && r < m; ++r) std::fill_n(c + size(r) * size(ldc), n, 0.0f);
    return;
  }
  if (alpha == 1 || beta == 0) return multiply_scaled(ta, m, n, k, alpha, a, lda, b, beta == 1, c, ldc);
  thread_local std::vector<float> scaled;
  scaled.resize(std::max(scaled.size(), size(m) * size(n)));
  multiply_scaled(ta, m, n, k, alpha, a, lda, b, false, scaled.data(), n);
  for (int r = 0; r < m; ++r) add_or_store(scaled.data() + size(r) * size(n), n, true, c + size(r) * size(ldc));
}

}  // namespace moescope
