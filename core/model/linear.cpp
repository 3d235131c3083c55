#include "core/model/linear.h"

#include <algorithm>
#include <cstddef>

#include "core/numerics/gemm.h"
#include "core/numerics/parallel.h"

namespace moescope {
namespace {

// Large enough for full GEMM speed on one core, small enough to keep several cores busy.
constexpr int kTileRows = 128;
constexpr int kWeightTileRows = 64;

int tiles(int extent, int tile) {
  return (extent + tile - 1) / tile;
}

}  // namespace

template <class T>
void linear_forward(const T* x, int rows, int in, const T* w, int out, T* y, bool accumulate) {
  parallel_for(tiles(rows, kTileRows), [&](int tile) {
    const std::size_t first = static_cast<std::size_t>(tile) * kTileRows;
    const int n = std::min(kTileRows, rows - static_cast<int>(first));
    gemm(Trans::no, Trans::yes, n, out, in, T{1}, x + first * static_cast<std::size_t>(in), in, w, in,
         accumulate ? T{1} : T{0}, y + first * static_cast<std::size_t>(out), out);
  });
}

template <class T>
void linear_backward_input(const T* dy, int rows, int out, const T* w, int in, T* dx, bool accumulate) {
  parallel_for(tiles(rows, kTileRows), [&](int tile) {
    const std::size_t first = static_cast<std::size_t>(tile) * kTileRows;
    const int n = std::min(kTileRows, rows - static_cast<int>(first));
    gemm(Trans::no, Trans::no, n, in, out, T{1}, dy + first * static_cast<std::size_t>(out), out, w, in,
         accumulate ? T{1} : T{0}, dx + first * static_cast<std::size_t>(in), in);
  });
}

template <class T>
void linear_backward_weight(const T* dy, const T* x, int rows, int out, int in, T* dw) {
  parallel_for(tiles(out, kWeightTileRows), [&](int tile) {
    const std::size_t first = static_cast<std::size_t>(tile) * kWeightTileRows;
    const int n = std::min(kWeightTileRows, out - static_cast<int>(first));
    gemm(Trans::yes, Trans::no, n, in, rows, T{1}, dy + first, out, x, in, T{0},
         dw + first * static_cast<std::size_t>(in), in);
  });
}

#define INSTANTIATE(T)                                                                 \
  template void linear_forward<T>(const T*, int, int, const T*, int, T*, bool);        \
  template void linear_backward_input<T>(const T*, int, int, const T*, int, T*, bool); \
  template void linear_backward_weight<T>(const T*, const T*, int, int, int, T*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
