#include "core/model/layers/attention_head.h"

#include <algorithm>
#include <limits>

#include "core/model/layers/arena.h"
#include "core/numerics/gemm.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

// Queries handled at a time. Keys after a block's last query are never read.
constexpr Index kQueryBlock = 64;
// Rows of the score matrix are padded to whole lanes of either scalar type.
constexpr Index kPad = 16;

Index padded(Index n) {
  return (n + kPad - 1) / kPad * kPad;
}

// Copies rows, rounded to BF16 if `rounds`. The rows of `in` may have gaps.
template <class T>
void take(const Matrix<const T>& in, bool rounds, const Matrix<T>& out) {
  for (Index r = 0; r < in.rows; ++r) {
    if (rounds)
      round_to_unit_bf16(in.row(r), in.cols, out.row(r));
    else
      std::copy_n(in.row(r), in.cols, out.row(r));
  }
}

// Copies keys to [m, dq]: the nope and rope parts side by side.
template <class T>
void take_keys(const HeadInputs<T>& in, bool rounds, const Matrix<T>& out) {
  take(in.k_nope, rounds, out.col_block(0, in.k_nope.cols));
  take(in.k_rope, rounds, out.col_block(in.k_nope.cols, in.k_rope.cols));
}

template <class T>
void round_block(const Matrix<T>& scores) {
  take<T>(scores, true, scores);
}

// Replaces the scores of some queries by their softmax over the keys that each query sees. The first query's own token
// is key `first_row`. Keys that a query does not see and padding get 0. `largest` is raised to the largest score.
template <class T>
void softmax_block(const Matrix<T>& scores, Index first_row, const HeadInputs<T>& in, std::span<T> lse, T& largest) {
  const Index sinks = in.sink ? 1 : 0, width = padded(scores.cols + sinks);
  for (Index r = 0; r < scores.rows; ++r) {
    T* s = scores.row(r);
    const Index count = first_row + r + 1, from = in.window > 0 ? std::max<Index>(0, count - in.window) : 0;
    if (in.sink) s[count] = *in.sink / in.scale;
    T row_largest = 0;
    lse[r] = softmax_row(s + from, count - from + sinks, in.scale, s + from, &row_largest);
    largest = std::max(largest, row_largest);
    std::fill(s, s + from, T{0});
    std::fill(s + count, s + width, T{0});
  }
}

template <class T>
void score_gradient_block(const Matrix<T>& scores, const Matrix<T>& dp, Index first, T scale,
                          const HeadGradients<T>& g) {
  const Index width = padded(scores.cols);
  for (Index r = 0; r < scores.rows; ++r) {
    T *s = scores.row(r), *ds = dp.row(r);
    const Index count = first + r + 1;
    std::fill(s + count, s + width, -std::numeric_limits<T>::infinity());
    std::fill(ds + count, ds + width, T{0});
    const T delta = dot(g.o.row(first + r), g.d_o.row(first + r), g.o.cols);
    softmax_backward_row(s, ds, width, scale, g.lse[first + r], delta);
  }
}

}  // namespace

template <class T>
void head_forward(const HeadInputs<T>& in, bool rounds, const HeadOutputs<T>& out) {
  const Index all = in.v.rows, before = all - in.q.rows, dq = in.q.cols, dv = in.v.cols;
  const Index stride = padded(all + (in.sink ? 1 : 0));
  const bool copies = rounds || in.k_rope.cols > 0;
  Arena<T> scratch;
  Matrix<T> key_rows, value_rows, all_q, all_scores;
  if (copies) {
    scratch.plan(key_rows, all, dq);
    scratch.plan(value_rows, all, dv);
    scratch.plan(all_q, kQueryBlock, dq);
  }
  scratch.plan(all_scores, kQueryBlock, stride);
  scratch.commit(thread_scratch<T>(scratch.size()));
  if (copies) {
    take_keys(in, rounds, key_rows);
    take(in.v, rounds, value_rows);
  }
  const Matrix<const T> keys = copies ? key_rows : in.k_nope, values = copies ? value_rows : in.v;
  out.largest = -std::numeric_limits<T>::infinity();
  for (Index first = 0; first < in.q.rows; first += kQueryBlock) {
    const Index rows = std::min(kQueryBlock, in.q.rows - first), last = before + first + rows;
    const Index begin = in.window > 0 ? std::max<Index>(0, before + first + 1 - in.window) : 0;
    const Matrix<T> scores = all_scores.block(0, 0, rows, last - begin);
    Matrix<const T> q = in.q.row_block(first, rows);
    if (copies) {
      take(q, rounds, all_q.row_block(0, rows));
      q = all_q.row_block(0, rows);
    }
    gemm(Trans::no, Trans::yes, T{1}, q, keys.row_block(begin, scores.cols), T{0}, scores);
    softmax_block(scores, before + first - begin, in, out.lse.subspan(first, rows), out.largest);
    if (rounds) round_block(scores);
    gemm(Trans::no, Trans::no, T{1}, scores, values.row_block(begin, scores.cols), T{0}, out.o.row_block(first, rows));
  }
}

template <class T>
void head_backward(const HeadInputs<T>& in, bool rounds, const HeadGradients<T>& g) {
  const Index length = in.q.rows, dq = in.q.cols, dv = in.v.cols, stride = padded(length);
  Arena<T> scratch;
  Matrix<T> keys, dkeys, values, all_q, all_d_o, all_s, all_dp;
  scratch.plan(keys, length, dq);
  scratch.plan(dkeys, length, dq);
  scratch.plan(values, length, dv);
  scratch.plan(all_q, kQueryBlock, dq);
  scratch.plan(all_d_o, kQueryBlock, dv);
  scratch.plan(all_s, kQueryBlock, stride);
  scratch.plan(all_dp, kQueryBlock, stride);
  scratch.commit(thread_scratch<T>(scratch.size()));
  take_keys(in, rounds, keys);
  take(in.v, rounds, values);
  // The last block sees every key, so it writes dK and dV, and the other blocks add to them.
  const Index last_block = (length - 1) / kQueryBlock * kQueryBlock;
  for (Index first = last_block; first >= 0; first -= kQueryBlock) {
    const Index rows = std::min(kQueryBlock, length - first), visible = first + rows;
    const T add = first == last_block ? T{0} : T{1};
    const Matrix<T> q = all_q.row_block(0, rows), d_o = all_d_o.row_block(0, rows);
    const Matrix<T> s = all_s.block(0, 0, rows, visible), dp = all_dp.block(0, 0, rows, visible);
    take(in.q.row_block(first, rows), rounds, q);
    take(g.d_o.row_block(first, rows), rounds, d_o);
    gemm(Trans::no, Trans::yes, T{1}, q, keys.row_block(0, visible), T{0}, s);
    gemm(Trans::no, Trans::yes, T{1}, d_o, values.row_block(0, visible), T{0}, dp);
    score_gradient_block(s, dp, first, in.scale, g);
    if (rounds) {
      round_block(s);
      round_block(dp);
    }
    gemm(Trans::yes, Trans::no, T{1}, s, d_o, add, g.dv.row_block(0, visible));
    gemm(Trans::no, Trans::no, T{1}, dp, keys.row_block(0, visible), T{0}, g.dq.row_block(first, rows));
    gemm(Trans::yes, Trans::no, T{1}, dp, q, add, dkeys.row_block(0, visible));
  }
  for (Index token = 0; token < length; ++token) {
    std::copy_n(dkeys.row(token), in.k_nope.cols, g.dk_nope.row(token));
    std::copy_n(dkeys.row(token) + in.k_nope.cols, in.k_rope.cols, g.dk_rope.row(token));
  }
}

#define INSTANTIATE(T)                                                              \
  template void head_forward<T>(const HeadInputs<T>&, bool, const HeadOutputs<T>&); \
  template void head_backward<T>(const HeadInputs<T>&, bool, const HeadGradients<T>&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
