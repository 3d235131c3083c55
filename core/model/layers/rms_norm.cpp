#include "core/model/layers/rms_norm.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

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
HWY_INLINE void backward_row(const T* dy, const T* x, T inv, std::size_t dim, const T* weight, T* dx, bool accumulate,
                             T* dweight) {
  Lanes<T> sum = zero<T>();
  for (std::size_t i = 0; i < dim; i += kLanes<T>) {
    const std::size_t n = dim - i;
    sum = fused(load_first(dy + i, n) * load_first(weight + i, n), load_first(x + i, n), sum);
  }
  const T pull = sum_of(sum) * inv * inv * inv / static_cast<T>(dim);
  for (std::size_t i = 0; i < dim; i += kLanes<T>) {
    const std::size_t n = dim - i;
    const Lanes<T> d = load_first(dy + i, n), v = load_first(x + i, n), w = load_first(weight + i, n);
    const Lanes<T> gradient = fused(w * inv, d, -(v * pull));
    store_first(dx + i, accumulate ? load_first(dx + i, n) + gradient : gradient, n);
    store_first(dweight + i, fused(d * v, splat(inv), load_first(dweight + i, n)), n);
  }
}

#define MOESCOPE_ROWS(T)                                                                                             \
  void forward_rows_##T(const T* x, std::size_t x_stride, std::size_t rows, std::size_t dim, const T* weight, T eps, \
                        T* y, T* inv) {                                                                              \
    for (std::size_t r = 0; r < rows; ++r) forward_row(x + r * x_stride, dim, weight, eps, y + r * dim, inv + r);    \
  }                                                                                                                  \
  void backward_rows_##T(const T* dy, const T* x, std::size_t x_stride, const T* inv, std::size_t rows,              \
                         std::size_t dim, const T* weight, T* dx, std::size_t dx_stride, bool accumulate,            \
                         T* dweight) {                                                                               \
    for (std::size_t r = 0; r < rows; ++r)                                                                           \
      backward_row(dy + r * dim, x + r * x_stride, inv[r], dim, weight, dx + r * dx_stride, accumulate, dweight);    \
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

HWY_EXPORT(forward_rows_float);
HWY_EXPORT(forward_rows_double);
HWY_EXPORT(backward_rows_float);
HWY_EXPORT(backward_rows_double);

constexpr std::size_t kSliceRows = kShardRows;

template <class T>
auto forward_rows() {
  if constexpr (std::is_same_v<T, float>)
    return HWY_DYNAMIC_DISPATCH(forward_rows_float);
  else
    return HWY_DYNAMIC_DISPATCH(forward_rows_double);
}
template <class T>
auto backward_rows() {
  if constexpr (std::is_same_v<T, float>)
    return HWY_DYNAMIC_DISPATCH(backward_rows_float);
  else
    return HWY_DYNAMIC_DISPATCH(backward_rows_double);
}

}  // namespace

template <class T>
void rms_norm_forward(const T* x, std::size_t x_stride, int rows, int dim, const T* weight, double eps, T* y, T* inv) {
  parallel_slices(static_cast<std::size_t>(rows), kSliceRows, [&](std::size_t first, std::size_t last) {
    forward_rows<T>()(x + first * x_stride, x_stride, last - first, static_cast<std::size_t>(dim), weight,
                      static_cast<T>(eps), y + first * static_cast<std::size_t>(dim), inv + first);
  });
}

int rms_norm_partials(int rows) {
  return static_cast<int>((static_cast<std::size_t>(rows) + kSliceRows - 1) / kSliceRows);
}

template <class T>
void rms_norm_backward(const T* dy, const T* x, std::size_t x_stride, const T* inv, int rows, int dim, const T* weight,
                       T* dx, std::size_t dx_stride, bool accumulate, T* dweight, T* partial, int shard_rows) {
  const std::size_t d = static_cast<std::size_t>(dim);
  parallel_slices(static_cast<std::size_t>(rows), kSliceRows, [&](std::size_t first, std::size_t last) {
    T* own = partial + first / kSliceRows * d;
    std::fill_n(own, d, T{0});
    backward_rows<T>()(dy + first * d, x + first * x_stride, x_stride, inv + first, last - first, d, weight,
                       dx + first * dx_stride, dx_stride, accumulate, own);
  });
  const int shards = shard_rows > 0 ? rows / shard_rows : 1, slices = rms_norm_partials(rows) / shards;
  const std::size_t shard = static_cast<std::size_t>(slices) * d;
  for (int s = 0; s < shards; ++s) {
    T* sum = partial + static_cast<std::size_t>(s) * shard;
    for (int slice = 1; slice < slices; ++slice)
      for (std::size_t i = 0; i < d; ++i) sum[i] += sum[static_cast<std::size_t>(slice) * d + i];
  }
  add_pairwise(partial, d, shards, shard);
  std::copy_n(partial, d, dweight);
}

#define INSTANTIATE(T)                                                                                               \
  template void rms_norm_forward<T>(const T*, std::size_t, int, int, const T*, double, T*, T*);                      \
  template void rms_norm_backward<T>(const T*, const T*, std::size_t, const T*, int, int, const T*, T*, std::size_t, \
                                     bool, T*, T*, int);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
#endif
