#include "core/model/layers/attention_head.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/numerics/gemm.h"
#include "core/numerics/threads.h"
#include "core/numerics/row_math.h"
#include "core/numerics/size.h"

namespace moescope {
namespace {

// Queries handled at a time: keys after a block's last query are never touched.
constexpr int kQueryBlock = 64;
// Rows of the score matrix are padded to whole lanes of either scalar type.
constexpr int kPad = 16;

int padded(int n) {
  return (n + kPad - 1) / kPad * kPad;
}

template <class T>
void take(const T* in, int n, bool rounds, T* out) {
  if (rounds)
    round_for_units(in, size(n), out);
  else
    std::copy_n(in, n, out);
}

// Rows first .. first + rows as they are multiplied, without gaps between them.
template <class T>
void take_rows(HeadRows<const T> in, int first, int rows, int width, bool rounds, T* out) {
  for (int r = 0; r < rows; ++r) take(in.row(first + r), width, rounds, out + size(r) * size(width));
}

// [S, dq]: the nope and rope parts side by side.
template <class T>
void take_keys(const HeadShape& shape, const HeadInputs<T>& in, bool rounds, T* out) {
  for (int s = 0; s < shape.length; ++s) {
    T* key = out + size(s) * size(shape.qk());
    take(in.k_nope.row(s), shape.nope, rounds, key);
    take(in.k_rope.row(s), shape.rope, rounds, key + shape.nope);
  }
}

template <class T>
void round_block(T* scores, int rows, int visible, int stride) {
  for (int r = 0; r < rows; ++r) {
    T* row = scores + size(r) * size(stride);
    round_for_units(row, size(visible), row);
  }
}

// Rows are queries first .. first + rows of the sequence; the first + r + 1 keys up to a query's own count, those after
// them get 0. `largest` grows to the largest score.
template <class T>
void softmax_block(T* scores, int stride, int first, int rows, int width, T scale, T* lse, T& largest) {
  for (int r = 0; r < rows; ++r) {
    T* s = scores + size(r) * size(stride);
    const int count = first + r + 1;
    T most = 0;
    lse[r] = softmax_row(s, size(count), scale, s, &most);
    largest = std::max(largest, most);
    std::fill(s + count, s + width, T{0});
  }
}

template <class T>
void score_gradient_block(T* scores, T* dp, int stride, int first, int rows, int width, T scale,
                          const HeadGradients<T>& g, int value_dim) {
  for (int r = 0; r < rows; ++r) {
    T *s = scores + size(r) * size(stride), *ds = dp + size(r) * size(stride);
    const int count = first + r + 1;
    std::fill(s + count, s + width, -std::numeric_limits<T>::infinity());
    std::fill(ds + count, ds + width, T{0});
    const T delta = dot(g.o.row(first + r), g.d_o.row(first + r), size(value_dim));
    softmax_backward_row(s, ds, size(width), scale, g.lse[first + r], delta);
  }
}

template <class T>
T score_scale(const HeadShape& shape) {
  return T{1} / std::sqrt(static_cast<T>(shape.qk()));
}

}  // namespace

template <class T>
void head_forward(const HeadShape& shape, const HeadInputs<T>& in, bool rounds, const HeadOutputs<T>& out) {
  const int length = shape.length, dq = shape.qk(), dv = shape.value, stride = padded(length);
  T* keys = thread_scratch<T>(size(padded(length * dq)) + size(padded(length * dv)) + size(padded(kQueryBlock * dq)) +
                              size(kQueryBlock) * size(stride));
  T *values = keys + padded(length * dq), *q = values + padded(length * dv), *scores = q + padded(kQueryBlock * dq);
  take_keys(shape, in, rounds, keys);
  take_rows(in.v, 0, length, dv, rounds, values);
  const T scale = score_scale<T>(shape);
  *out.largest = -std::numeric_limits<T>::infinity();
  for (int first = 0; first < length; first += kQueryBlock) {
    const int rows = std::min(kQueryBlock, length - first), visible = first + rows;
    take_rows(in.q, first, rows, dq, rounds, q);
    gemm(Trans::no, Trans::yes, rows, visible, dq, T{1}, q, dq, keys, dq, T{0}, scores, stride);
    softmax_block(scores, stride, first, rows, padded(visible), scale, out.lse + first, *out.largest);
    if (rounds) round_block(scores, rows, visible, stride);
    gemm(Trans::no, Trans::no, rows, dv, visible, T{1}, scores, stride, values, dv, T{0}, out.o.row(first),
         out.o.stride);
  }
}

template <class T>
void head_backward(const HeadShape& shape, const HeadInputs<T>& in, bool rounds, const HeadGradients<T>& g) {
  const int length = shape.length, dq = shape.qk(), dv = shape.value, stride = padded(length);
  const std::size_t keys_size = size(padded(length * dq)), scores_size = size(kQueryBlock) * size(stride);
  T* keys = thread_scratch<T>(2 * keys_size + size(padded(length * dv)) + size(padded(kQueryBlock * dq)) +
                              size(padded(kQueryBlock * dv)) + 2 * scores_size);
  T *dkeys = keys + keys_size, *values = dkeys + keys_size, *q = values + padded(length * dv);
  T *d_o = q + padded(kQueryBlock * dq), *s = d_o + padded(kQueryBlock * dv), *dp = s + scores_size;
  take_keys(shape, in, rounds, keys);
  take_rows(in.v, 0, length, dv, rounds, values);
  const T scale = score_scale<T>(shape);
  // The last block sees every key, so it writes dK and dV and the others add to them.
  const int last_block = (length - 1) / kQueryBlock * kQueryBlock;
  for (int first = last_block; first >= 0; first -= kQueryBlock) {
    const int rows = std::min(kQueryBlock, length - first), visible = first + rows;
    const T add = first == last_block ? T{0} : T{1};
    take_rows(in.q, first, rows, dq, rounds, q);
    take_rows(g.d_o, first, rows, dv, rounds, d_o);
    gemm(Trans::no, Trans::yes, rows, visible, dq, T{1}, q, dq, keys, dq, T{0}, s, stride);
    gemm(Trans::no, Trans::yes, rows, visible, dv, T{1}, d_o, dv, values, dv, T{0}, dp, stride);
    score_gradient_block(s, dp, stride, first, rows, padded(visible), scale, g, dv);
    if (rounds) round_block(s, rows, visible, stride), round_block(dp, rows, visible, stride);
    gemm(Trans::yes, Trans::no, visible, dv, rows, T{1}, s, stride, d_o, dv, add, g.dv.first, g.dv.stride);
    gemm(Trans::no, Trans::no, rows, dq, visible, T{1}, dp, stride, keys, dq, T{0}, g.dq.row(first), g.dq.stride);
    gemm(Trans::yes, Trans::no, visible, dq, rows, T{1}, dp, stride, q, dq, add, dkeys, dq);
  }
  for (int token = 0; token < length; ++token) {
    const T* dkey = dkeys + size(token) * size(dq);
    std::copy_n(dkey, shape.nope, g.dk_nope.row(token));
    std::copy_n(dkey + shape.nope, shape.rope, g.dk_rope.row(token));
  }
}

#define INSTANTIATE(T)                                                                                \
  template void head_forward<T>(const HeadShape&, const HeadInputs<T>&, bool, const HeadOutputs<T>&); \
  template void head_backward<T>(const HeadShape&, const HeadInputs<T>&, bool, const HeadGradients<T>&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
