// Softmax of one row, vectorised; for use inside functions marked MOESCOPE_SIMD.
#pragma once

#include <cmath>
#include <limits>

#include "core/numerics/kernels/lanes.h"

namespace moescope {

// out_i = exp(scale in_i) / sum, in place if out == in. Returns log sum exp(scale in_i). n >= 1.
template <class T>
MOESCOPE_INLINE T softmax_row(const T* in, int n, T scale, T* out) {
  const int whole = n / kLanes<T> * kLanes<T>, rest = n - whole;
  T max = -std::numeric_limits<T>::infinity();
  if (whole > 0) {
    Lanes<T> top = load(in) * scale;
    for (int i = kLanes<T>; i < whole; i += kLanes<T>) {
      const Lanes<T> v = load(in + i) * scale;
      top = v > top ? v : top;
    }
    max = max_of<T>(top);
  }
  for (int i = whole; i < n; ++i) max = in[i] * scale > max ? in[i] * scale : max;

  Lanes<T> total = {};
  for (int i = 0; i < whole; i += kLanes<T>) {
    const Lanes<T> e = exp_lanes(load(in + i) * scale - max);
    total += e;
    store<T>(out + i, e);
  }
  T sum = sum_of<T>(total);
  if (rest > 0) {
    const Lanes<T> e = exp_lanes(load_first(in + whole, rest) * scale - max);
    store_first<T>(out + whole, e, rest);
    for (int i = 0; i < rest; ++i) sum += e[i];
  }
  const T inv = T{1} / sum;
  for (int i = 0; i < n; ++i) out[i] *= inv;
  return max + std::log(sum);
}

}  // namespace moescope
