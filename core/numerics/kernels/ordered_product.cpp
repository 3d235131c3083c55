#include "core/numerics/kernels/ordered_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/numerics/kernels/ordered_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "core/numerics/threads.h"

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr Index kDepth = 256;  // products that are summed before the sum is added to C

// The sums of a tile of kTileRows rows and two vectors stay in registers; AVX-512 and Arm have 32 of these.
template <class T>
using Vectors = hn::ScalableTag<T>;
template <class T>
constexpr Index kTileCols = 2 * hn::MaxLanes(Vectors<T>());
constexpr Index kTileRows = (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3) || HWY_ARCH_ARM_A64 ? 12 : 6;

// Rows of A of one tile; rows past the last one are copies of it.
template <class T>
struct TileRows {
  const T* row[kTileRows];
  Index col_step;

  HWY_INLINE TileRows(const SteppedMatrix<T>& a, Index count) : col_step(a.col_step) {
    for (Index r = 0; r < kTileRows; ++r) row[r] = a.data + std::min(r, count - 1) * a.row_step;
  }
};

// C becomes alpha sum + beta C.
template <class T>
struct SumFactors {
  T alpha, beta;
};

template <class T, class V>
HWY_INLINE void store_row(const SumFactors<T>& factors, V left_sums, V right_sums, Index cols, T* c) {
  const Vectors<T> d;
  constexpr Index kLanes = kTileCols<T> / 2;
  const V alpha = hn::Set(d, factors.alpha), beta = hn::Set(d, factors.beta);
  left_sums = hn::Mul(left_sums, alpha);
  right_sums = hn::Mul(right_sums, alpha);
  if (cols == kTileCols<T>) {
    if (factors.beta != 0) {
      left_sums = hn::Add(left_sums, hn::Mul(beta, hn::LoadU(d, c)));
      right_sums = hn::Add(right_sums, hn::Mul(beta, hn::LoadU(d, c + kLanes)));
    }
    hn::StoreU(left_sums, d, c);
    hn::StoreU(right_sums, d, c + kLanes);
    return;
  }
  T sums[kTileCols<T>];
  hn::StoreU(left_sums, d, sums);
  hn::StoreU(right_sums, d, sums + kLanes);
  for (Index i = 0; i < cols; ++i) c[i] = factors.beta == 0 ? sums[i] : sums[i] + factors.beta * c[i];
}

// `panel` is [k, kTileCols].
template <class T>
HWY_INLINE void multiply_tile(const TileRows<T>& a, const T* HWY_RESTRICT panel, Index k, const SumFactors<T>& factors,
                              const Matrix<T>& c) {
  const Vectors<T> d;
  constexpr Index kLanes = kTileCols<T> / 2;
  hn::Vec<Vectors<T>> left_sums[kTileRows], right_sums[kTileRows];
  for (Index r = 0; r < kTileRows; ++r) left_sums[r] = right_sums[r] = hn::Zero(d);
  for (Index i = 0; i < k; ++i) {
    const auto b_left = hn::LoadU(d, panel + i * kTileCols<T>),
               b_right = hn::LoadU(d, panel + i * kTileCols<T> + kLanes);
    for (Index r = 0; r < kTileRows; ++r) {
      const auto factor = hn::Set(d, a.row[r][i * a.col_step]);
      left_sums[r] = hn::Add(left_sums[r], hn::Mul(factor, b_left));
      right_sums[r] = hn::Add(right_sums[r], hn::Mul(factor, b_right));
    }
  }
  for (Index r = 0; r < c.rows; ++r) store_row(factors, left_sums[r], right_sums[r], c.cols, c.row(r));
}

// A copy of a constant number of values needs no call.
template <Index kUsualCount, class T>
HWY_INLINE void copy(const T* from, Index count, T* to) {
  if (count == kUsualCount)
    std::memcpy(to, from, kUsualCount * sizeof(T));
  else
    std::copy_n(from, count, to);
}

// Writes [k, kTileCols] from rows of B that are contiguous along k.
template <class T>
HWY_INLINE void pack_transposed(const T* b, Index stride, Index k, Index cols, T* panel) {
  Index done = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) == 4) {
    const hn::FixedTag<T, 4> d;
    for (; cols == kTileCols<T> && done + 4 <= k; done += 4)
      for (Index j = 0; j < kTileCols<T>; j += 4) {
        const T* from = b + j * stride + done;
        const auto first = hn::LoadU(d, from), second = hn::LoadU(d, from + stride);
        const auto third = hn::LoadU(d, from + 2 * stride), fourth = hn::LoadU(d, from + 3 * stride);
        const auto upper_left = hn::InterleaveLower(d, first, second),
                   lower_left = hn::InterleaveUpper(d, first, second);
        const auto upper_right = hn::InterleaveLower(d, third, fourth),
                   lower_right = hn::InterleaveUpper(d, third, fourth);
        T* to = panel + done * kTileCols<T> + j;
        hn::StoreU(hn::ConcatLowerLower(d, upper_right, upper_left), d, to);
        hn::StoreU(hn::ConcatUpperUpper(d, upper_right, upper_left), d, to + kTileCols<T>);
        hn::StoreU(hn::ConcatLowerLower(d, lower_right, lower_left), d, to + 2 * kTileCols<T>);
        hn::StoreU(hn::ConcatUpperUpper(d, lower_right, lower_left), d, to + 3 * kTileCols<T>);
      }
  }
#endif
  for (; done < k; ++done) {
    T* to = panel + done * kTileCols<T>;
    for (Index j = 0; j < cols; ++j) to[j] = b[j * stride + done];
    std::fill(to + cols, to + kTileCols<T>, T{0});
  }
}

template <class T>
HWY_INLINE void pack_panel(const SteppedMatrix<T>& b, Index k, Index cols, T* panel) {
  if (b.col_step != 1) return pack_transposed(b.data, b.col_step, k, cols, panel);
  for (Index i = 0; i < k; ++i, panel += kTileCols<T>) {
    copy<kTileCols<T>>(b.data + i * b.row_step, cols, panel);
    std::fill(panel + cols, panel + kTileCols<T>, T{0});
  }
}

// Returns A as [m / kTileRows, k, kTileRows], because its columns may be far apart in memory.
template <class T>
HWY_INLINE void pack_rows(const SteppedMatrix<T>& a, Index m, Index k, T* out) {
  for (Index row = 0; row < m; row += kTileRows)
    for (Index i = 0; i < k; ++i, out += kTileRows)
      copy<kTileRows>(a.data + row + i * a.col_step, std::min(kTileRows, m - row), out);
}

template <class T>
HWY_INLINE void multiply_depth(SteppedMatrix<T> a, SteppedMatrix<T> b, Index k, const SumFactors<T>& factors,
                               const Matrix<T>& c) {
  thread_local AlignedBuffer<T> panel_memory, row_memory;
  T* panel = panel_memory.sized(kDepth * kTileCols<T>);
  const bool packed = a.col_step != 1;
  Index row_block_step = kTileRows * a.row_step;
  if (packed) {
    T* rows = row_memory.sized((c.rows + kTileRows) * kDepth);
    pack_rows(a, c.rows, k, rows);
    a = {rows, 1, kTileRows};
    row_block_step = kTileRows * k;
  }
  for (Index col = 0; col < c.cols; col += kTileCols<T>) {
    const Index cols = std::min(kTileCols<T>, c.cols - col);
    pack_panel<T>({b.data + col * b.col_step, b.row_step, b.col_step}, k, cols, panel);
    for (Index row = 0; row < c.rows; row += kTileRows) {
      const Index rows = std::min(kTileRows, c.rows - row);
      const SteppedMatrix<T> block{a.data + row / kTileRows * row_block_step, a.row_step, a.col_step};
      multiply_tile<T>({block, rows}, panel, k, factors, c.block(row, col, rows, cols));
    }
  }
}

template <class T>
HWY_INLINE void multiply(T alpha, const SteppedMatrix<T>& a, const SteppedMatrix<T>& b, Index k, T beta,
                         const Matrix<T>& c) {
  Index done = 0;
  do {
    multiply_depth<T>({a.data + done * a.col_step, a.row_step, a.col_step},
                      {b.data + done * b.row_step, b.row_step, b.col_step}, std::min(kDepth, k - done),
                      {alpha, done == 0 ? beta : T{1}}, c);
    done += kDepth;
  } while (done < k);
}

void ordered_float(float alpha, const SteppedMatrix<float>& a, const SteppedMatrix<float>& b, Index k, float beta,
                   const Matrix<float>& c) {
  multiply(alpha, a, b, k, beta, c);
}
void ordered_double(double alpha, const SteppedMatrix<double>& a, const SteppedMatrix<double>& b, Index k, double beta,
                    const Matrix<double>& c) {
  multiply(alpha, a, b, k, beta, c);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace moescope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moescope {

HWY_EXPORT(ordered_float);
HWY_EXPORT(ordered_double);

void ordered_product(float alpha, SteppedMatrix<float> a, SteppedMatrix<float> b, Index k, float beta,
                     Matrix<float> c) {
  HWY_DYNAMIC_DISPATCH(ordered_float)(alpha, a, b, k, beta, c);
}
void ordered_product(double alpha, SteppedMatrix<double> a, SteppedMatrix<double> b, Index k, double beta,
                     Matrix<double> c) {
  HWY_DYNAMIC_DISPATCH(ordered_double)(alpha, a, b, k, beta, c);
}

}  // namespace moescope
#endif
