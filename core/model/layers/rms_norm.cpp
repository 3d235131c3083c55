#include "core/model/layers/rms_norm.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/model/layers/rms_norm.cpp"
#include <hwy/foreach_target.h>

#include "core/model/layers/batch_part.h"
#include "core/numerics/kernels/exponential.h"
#include "core/numerics/threads.h"

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {
namespace {

template <class T>
HWY_INLINE void forward_row(const T* x, std::size_t dim, const T* weight, T eps, T* y, T* inv) {
  const T scale = T{1} / std::sqrt(dot(x, x, dim) / static_cast<T>(dim) + eps);
  for (std::size_t i = 0; i < dim; i += kLanes<T>) {
    const std::size_t n = dim - i;
    store_first(y + i, load_first(x + i, n) * scale * load_first(weight + i, n), n);
  }
  *inv = scale;
}

template <class T>
HWY_INLINE void backward_row(ConstMatrix<T> dy, const RmsNorm<T>& norm, Index r, T* dx, bool accumulate, T* dweight) {
  const T *g = dy.row(r), *x = norm.x.row(r), *weight = norm.weight.data(), inv = norm.inv[r];
  const std::size_t dim = dy.cols;
  Lanes<T> sum = zero<T>();
  for (std::size_t i = 0; i < dim; i += kLanes<T>) {
    const std::size_t n = dim - i;
    sum = fused(load_first(g + i, n) * load_first(weight + i, n), load_first(x + i, n), sum);
  }
  const T pull = sum_of(sum) * inv * inv * inv / static_cast<T>(dim);
  for (std::size_t i = 0; i < dim; i += kLanes<T>) {
    const std::size_t n = dim - i;
    const Lanes<T> d = load_first(g + i, n), v = load_first(x + i, n), w = load_first(weight + i, n);
    const Lanes<T> gradient = fused(w * inv, d, -(v * pull));
    store_first(dx + i, accumulate ? load_first(dx + i, n) + gradient : gradient, n);
    store_first(dweight + i, fused(d * v, splat(inv), load_first(dweight + i, n)), n);
  }
}

#define MOESCOPE_ROWS(T)                                                                                          \
  void forward_rows_##T(const Matrix<const T>& x, const T* weight, T eps, const Matrix<T>& y, T* inv) {           \
    for (Index r = 0; r < x.rows; ++r) forward_row(x.row(r), x.cols, weight, eps, y.row(r), inv + r);             \
  }                                                                                                               \
  void backward_rows_##T(const Matrix<const T>& dy, const RmsNorm<T>& norm, const Matrix<T>& dx, bool accumulate, \
                         T* dweight) {                                                                            \
    for (Index r = 0; r < dy.rows; ++r) backward_row<T>(dy, norm, r, dx.row(r), accumulate, dweight);             \
  }
MOESCOPE_ROWS(float)
MOESCOPE_ROWS(double)
#undef MOESCOPE_ROWS

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace moescope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moescope {
namespace {

MOESCOPE_EXPORT_KERNEL(forward_rows);
MOESCOPE_EXPORT_KERNEL(backward_rows);

constexpr Index kSliceRows = kShardRows;

}  // namespace

template <class T>
void rms_norm_forward(ConstMatrix<T> x, std::span<const T> weight, double eps, Matrix<T> y, std::span<T> inv) {
  assert(std::ssize(weight) == x.cols && std::ssize(inv) == x.rows);
  const auto forward = MOESCOPE_KERNEL(forward_rows, T);
  parallel_slices(x.rows, kSliceRows, [&](Index first, Index last) {
    const Index count = last - first;
    forward(x.row_block(first, count), weight.data(), static_cast<T>(eps), y.row_block(first, count),
            inv.data() + first);
  });
}

Index rms_norm_partials(Index rows) {
  return (rows + kSliceRows - 1) / kSliceRows;
}

template <class T>
void rms_norm_backward(ConstMatrix<T> dy, const RmsNorm<T>& norm, Matrix<T> dx, bool accumulate,
                       const NormGradient<T>& gradient) {
  const Index dim = norm.x.cols, rows = norm.x.rows;
  const Matrix<T>& partial = gradient.partial;
  const auto backward = MOESCOPE_KERNEL(backward_rows, T);
  parallel_slices(rows, kSliceRows, [&](Index first, Index last) {
    const Index count = last - first;
    T* slice_dgain = partial.row(first / kSliceRows);
    std::fill_n(slice_dgain, dim, T{0});
    backward(dy.row_block(first, count), {norm.x.row_block(first, count), norm.weight, norm.inv.subspan(first, count)},
             dx.row_block(first, count), accumulate, slice_dgain);
  });
  const Index shards = gradient.shard_rows > 0 ? rows / gradient.shard_rows : 1;
  const Index slices = rms_norm_partials(rows) / shards;
  for (Index s = 0; s < shards; ++s) {
    T* sum = partial.row(s * slices);
    for (Index slice = 1; slice < slices; ++slice)
      for (Index i = 0; i < dim; ++i) sum[i] += partial.row(s * slices + slice)[i];
  }
  add_pairwise(Matrix<T>(partial.data, shards, dim, slices * partial.stride));
  std::copy_n(partial.data, dim, gradient.dweight.begin());
}

#define INSTANTIATE(T)                                                                                    \
  template void rms_norm_forward<T>(ConstMatrix<T>, std::span<const T>, double, Matrix<T>, std::span<T>); \
  template void rms_norm_backward<T>(ConstMatrix<T>, const RmsNorm<T>&, Matrix<T>, bool, const NormGradient<T>&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
#endif
