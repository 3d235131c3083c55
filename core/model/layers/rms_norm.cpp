#include "core/model/layers/rms_norm.h"

#include <algorithm>
#include <cmath>

#include "core/model/layers/batch_part.h"
#include "core/numerics/kernels/lanes.h"
#include "core/numerics/kernels/simd.h"
#include "core/numerics/parallel.h"

namespace moescope {
namespace {

constexpr std::size_t kSliceRows = kShardRows;

template <class T>
MOESCOPE_INLINE void forward_row(const T* x, int dim, const T* weight, T eps, T* y, T* inv) {
  const T scale = T{1} / std::sqrt(dot(x, x, dim) / static_cast<T>(dim) + eps);
  for (int i = 0; i < dim; ++i) y[i] = x[i] * scale * weight[i];
  *inv = scale;
}

template <class T>
MOESCOPE_INLINE void backward_row(const T* dy, const T* x, T inv, int dim, const T* weight, T* dx, bool accumulate,
                                  T* dweight) {
  Lanes<T> acc = {};
  int i = 0;
  for (; i + kLanes<T> <= dim; i += kLanes<T>) acc += load(dy + i) * load(weight + i) * load(x + i);
  if (const int rest = dim - i; rest > 0)
    acc += load_first(dy + i, rest) * load_first(weight + i, rest) * load_first(x + i, rest);
  const T pull = sum_of<T>(acc) * inv * inv * inv / static_cast<T>(dim);
  for (int j = 0; j < dim; ++j) {
    const T gradient = inv * weight[j] * dy[j] - pull * x[j];
    dx[j] = accumulate ? dx[j] + gradient : gradient;
    dweight[j] += dy[j] * x[j] * inv;
  }
}

#define ROW_KERNELS(T)                                                                                                 \
  MOESCOPE_SIMD void forward_rows(const T* x, std::size_t x_stride, std::size_t rows, int dim, const T* weight, T eps, \
                                  T* y, T* inv) {                                                                      \
    for (std::size_t r = 0; r < rows; ++r)                                                                             \
      forward_row(x + r * x_stride, dim, weight, eps, y + r * static_cast<std::size_t>(dim), inv + r);                 \
  }                                                                                                                    \
  MOESCOPE_SIMD void backward_rows(const T* dy, const T* x, std::size_t x_stride, const T* inv, std::size_t rows,      \
                                   int dim, const T* weight, T* dx, std::size_t dx_stride, bool accumulate,            \
                                   T* dweight) {                                                                       \
    for (std::size_t r = 0; r < rows; ++r)                                                                             \
      backward_row(dy + r * static_cast<std::size_t>(dim), x + r * x_stride, inv[r], dim, weight, dx + r * dx_stride,  \
                   accumulate, dweight);                                                                               \
  }
ROW_KERNELS(float)
ROW_KERNELS(double)
#undef ROW_KERNELS

}  // namespace

template <class T>
void rms_norm_forward(const T* x, std::size_t x_stride, int rows, int dim, const T* weight, double eps, T* y, T* inv) {
  parallel_slices(static_cast<std::size_t>(rows), kSliceRows, [&](std::size_t first, std::size_t last) {
    forward_rows(x + first * x_stride, x_stride, last - first, dim, weight, static_cast<T>(eps),
                 y + first * static_cast<std::size_t>(dim), inv + first);
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
    backward_rows(dy + first * d, x + first * x_stride, x_stride, inv + first, last - first, dim, weight,
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
