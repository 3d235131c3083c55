#include "core/numerics/gemm.h"

#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <cassert>
#include <vector>

#include "core/numerics/kernels/ordered_product.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

CBLAS_TRANSPOSE flag(Trans trans) {
  return trans == Trans::yes ? CblasTrans : CblasNoTrans;
}

// Outside of a parallel loop OpenBLAS would start threads of its own, and the result would depend on their number.
// OpenBLAS asks OpenMP for the number at each call. OpenMP keeps this number separately for each thread and for each
// parallel region of one thread, so it is checked at every call.
void keep_openblas_on_this_thread() {
  static const bool limited_to_one_thread =
      (openblas_set_num_threads(1), true);  // for an OpenBLAS that does not use OpenMP
  (void)limited_to_one_thread;
  if (!omp_in_parallel() && omp_get_max_threads() != 1) omp_set_num_threads(1);
}

// Converts to OpenBLAS's index type. OpenBLAS refuses a stride of 0, which a matrix without columns has.
blasint blas(Index n) {
  return to_int(n);
}
blasint leading(Index stride) {
  return to_int(std::max<Index>(stride, 1));
}

template <class T>
[[maybe_unused]] bool shapes_agree(Trans ta, Trans tb, const Matrix<const T>& a, const Matrix<const T>& b,
                                   const Matrix<T>& c) {
  const auto rows = [](Trans trans, const Matrix<const T>& m) { return trans == Trans::yes ? m.cols : m.rows; };
  return rows(ta, a) == c.rows && contracted(tb, b) == c.cols && contracted(ta, a) == rows(tb, b);
}

template <class T>
SteppedMatrix<T> stepped(Trans trans, const Matrix<const T>& m) {
  return trans == Trans::yes ? SteppedMatrix<T>{m.data, 1, m.stride} : SteppedMatrix<T>{m.data, m.stride, 1};
}

// Returns false if the product is left to OpenBLAS, which then runs on this thread.
template <class T>
bool multiplied_in_order(Trans ta, Trans tb, T alpha, const Matrix<const T>& a, const Matrix<const T>& b, T beta,
                         const Matrix<T>& c) {
  assert(shapes_agree(ta, tb, a, b, c));
  if (c.empty()) return true;
  if (PortableProducts::in_use()) {
    ordered_product(alpha, stepped(ta, a), stepped(tb, b), contracted(ta, a), beta, c);
    return true;
  }
  keep_openblas_on_this_thread();
  return false;
}

// Memory of the calling thread, separate from thread_scratch, which holds the operands.
struct GemmBuffers {
  AlignedBuffer<Bf16> rows, panels;
  AlignedBuffer<float> c;
};
GemmBuffers& buffers() {
  thread_local GemmBuffers thread_buffers;
  return thread_buffers;
}

// Returns a copy of A, padded with zeros to whole tiles of rows and to `depth` columns.
Matrix<const Bf16> padded_rows(const Matrix<const Bf16>& a, Index depth) {
  const Matrix<Bf16> padded(buffers().rows.sized(to_tiles(a.rows, kUnitRows) * depth), to_tiles(a.rows, kUnitRows),
                            depth);
  for (Index r = 0; r < padded.rows; ++r) {
    Bf16* to = padded.row(r);
    const Index row_length = r < a.rows ? a.cols : 0;
    if (row_length > 0) std::copy_n(a.row(r), row_length, to);
    std::fill(to + row_length, to + depth, Bf16{0});
  }
  return padded;
}

void add_or_store(const float* from, Index count, bool adds, float* to) {
  for (Index i = 0; i < count; ++i) to[i] = adds ? to[i] + from[i] : from[i];
}

// Multiplies rows and columns that do not fill a tile, through memory of whole tiles. `a` must have whole tiles of
// rows.
void multiply_ragged(const TileProducts& tiles, const Matrix<const Bf16>& a, const PackedMatrix& b, float scale,
                     bool adds, const Matrix<float>& c) {
  constexpr Index kRowsAtATime = 64;
  const Index cols = to_tiles(c.cols, kUnitRows);
  float* memory = buffers().c.sized(kRowsAtATime * cols);
  for (Index row = 0; row < c.rows; row += kRowsAtATime) {
    const Index rows = std::min(kRowsAtATime, c.rows - row), padded = to_tiles(rows, kUnitRows);
    const Matrix<float> whole(memory, padded, cols);
    tiles.multiply(a.row_block(row, padded), b, false, whole, scale);
    for (Index r = 0; r < rows; ++r) add_or_store(whole.row(r), c.cols, adds, c.row(row + r));
  }
}

void multiply_scaled(Trans ta, float scale, const Matrix<const Bf16>& a, const PackedMatrix& b, bool adds,
                     const Matrix<float>& c) {
  const Index k = contracted(ta, a), depth = to_tiles(k, kUnitDepth);
  const TileProducts tiles;
  Matrix<const Bf16> first = a;
  bool padded = true;
  if (ta == Trans::yes) {
    Bf16* rows = buffers().rows.sized(to_tiles(c.rows, kUnitRows) * depth);
    rows_of_transpose(a, rows);
    first = {rows, to_tiles(c.rows, kUnitRows), k, depth};
  } else if (k < depth) {
    first = padded_rows(a, depth).col_block(0, k);
  } else {
    padded = false;
  }
  const Index whole = c.cols % kUnitRows == 0 ? c.rows / kUnitRows * kUnitRows : 0, remaining_rows = c.rows - whole;
  if (whole > 0) tiles.multiply(first.row_block(0, whole), b, adds, c.row_block(0, whole), scale, Results::in_memory);
  if (remaining_rows == 0) return;
  Matrix<const Bf16> remainder = first.row_block(whole, first.rows - whole);
  if (!padded) remainder = padded_rows(remainder, depth);
  multiply_ragged(tiles, remainder, b, scale, adds, c.row_block(whole, remaining_rows));
}

}  // namespace

void gemm(Trans ta, Trans tb, float alpha, ConstMatrix<float> a, ConstMatrix<float> b, float beta, Matrix<float> c) {
  if (!multiplied_in_order(ta, tb, alpha, a, b, beta, c))
    cblas_sgemm(CblasRowMajor, flag(ta), flag(tb), blas(c.rows), blas(c.cols), blas(contracted(ta, a)), alpha, a.data,
                leading(a.stride), b.data, leading(b.stride), beta, c.data, leading(c.stride));
}

void gemm(Trans ta, Trans tb, double alpha, ConstMatrix<double> a, ConstMatrix<double> b, double beta,
          Matrix<double> c) {
  if (!multiplied_in_order(ta, tb, alpha, a, b, beta, c))
    cblas_dgemm(CblasRowMajor, flag(ta), flag(tb), blas(c.rows), blas(c.cols), blas(contracted(ta, a)), alpha, a.data,
                leading(a.stride), b.data, leading(b.stride), beta, c.data, leading(c.stride));
}

PackedMatrix pack(Trans tb, ConstMatrix<Bf16> b, Bf16* panels) {
  if (tb == Trans::yes)
    panels_of_transpose(b, panels);
  else
    panels_of(b, panels);
  return in_panels(panels, to_tiles(contracted(tb == Trans::yes ? Trans::no : Trans::yes, b), kUnitDepth));
}

void gemm(Trans ta, Trans tb, float alpha, ConstMatrix<Bf16> a, ConstMatrix<Bf16> b, float beta, Matrix<float> c) {
  Bf16* panels = buffers().panels.sized(panel_elements(c.cols, contracted(ta, a)));
  gemm(ta, alpha, a, pack(tb, b, panels), beta, c);
}

void gemm(Trans ta, float alpha, ConstMatrix<Bf16> a, const PackedMatrix& b, float beta, Matrix<float> c) {
  assert(beta == 0 || beta == 1);
  if (c.empty()) return;
  if (contracted(ta, a) == 0) {
    for (Index r = 0; beta == 0 && r < c.rows; ++r) std::fill_n(c.row(r), c.cols, 0.0f);
    return;
  }
  if (alpha == 1 || beta == 0) return multiply_scaled(ta, alpha, a, b, beta == 1, c);
  thread_local std::vector<float> memory;
  memory.resize(std::max<std::size_t>(memory.size(), c.size()));
  const Matrix<float> scaled(memory.data(), c.rows, c.cols);
  multiply_scaled(ta, alpha, a, b, false, scaled);
  for (Index r = 0; r < c.rows; ++r) add_or_store(scaled.row(r), c.cols, true, c.row(r));
}

}  // namespace moescope
