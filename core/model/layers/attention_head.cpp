#include "core/model/layers/attention_head.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

// Copies rows, rounded if they are multiplied so, without gaps between them.
template <class T>
void take(const Matrix<const T>& in, bool rounds, const Matrix<T>& out) {
  for (Index r = 0; r < in.rows; ++r) {
    if (rounds)
      round_for_units(in.row(r), in.cols, out.row(r));
    else
      std::copy_n(in.row(r), in.cols, out.row(r));
  }
}

// Copies keys to [S, dq]: the nope and rope parts side by side.
template <class T>
void take_keys(const HeadInputs<T>& in, bool rounds, const Matrix<T>& out) {
  take(in.k_nope, rounds, out.col_block(0, in.k_nope.cols));
  take(in.k_rope, rounds, out.col_block(in.k_nope.cols, in.k_rope.cols));
}

template <class T>
void round_block(const Matrix<T>& scores) {
  take<T>(scores, true, scores);
}

// Rows are queries first, first + 1, ... of the sequence. Softmax is over the first + r + 1 keys up to the query
// itself; later keys and padding get 0. `largest` grows to the largest score.
template <class T>
void softmax_block(const Matrix<T>& scores, Index first, T scale, T* lse, T& largest) {
  for (Index r = 0; r < scores.rows; ++r) {
    T* s = scores.row(r);
    const Index count = first + r + 1;
    T most = 0;
    lse[r] = softmax_row(s, count, scale, s, &most);
    largest = std::max(largest, most);
    std::fill(s + count, s + padded(scores.cols), T{0});
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

template <class T>
T score_scale(const HeadShape& shape) {
  return T{1} / std::sqrt(static_cast<T>(shape.qk()));
}

// Matrices one after the other in the calling thread's scratch.
template <class T>
class ScratchPieces {
 public:
  explicit ScratchPieces(Index elements) : next_(thread_scratch<T>(elements)) {}
  Matrix<T> take(Index rows, Index cols, Index stride) {
    const Matrix<T> piece(next_, rows, cols, stride);
    next_ += padded(rows * stride);
    return piece;
  }
  Matrix<T> take(Index rows, Index cols) { return take(rows, cols, cols); }

 private:
  T* next_;
};

}  // namespace

template <class T>
void head_forward(const HeadShape& shape, const HeadInputs<T>& in, bool rounds, const HeadOutputs<T>& out) {
  const Index length = shape.length, dq = shape.qk(), dv = shape.value, stride = padded(length);
  ScratchPieces<T> pieces(padded(length * dq) + padded(length * dv) + padded(kQueryBlock * dq) + kQueryBlock * stride);
  const Matrix<T> keys = pieces.take(length, dq), values = pieces.take(length, dv);
  const Matrix<T> all_q = pieces.take(kQueryBlock, dq), all_scores = pieces.take(kQueryBlock, length, stride);
  take_keys(in, rounds, keys);
  take(in.v, rounds, values);
  const T scale = score_scale<T>(shape);
  *out.largest = -std::numeric_limits<T>::infinity();
  for (Index first = 0; first < length; first += kQueryBlock) {
    const Index rows = std::min(kQueryBlock, length - first), visible = first + rows;
    const Matrix<T> q = all_q.row_block(0, rows), scores = all_scores.block(0, 0, rows, visible);
    take(in.q.row_block(first, rows), rounds, q);
    gemm(Trans::no, Trans::yes, T{1}, q, keys.row_block(0, visible), T{0}, scores);
    softmax_block(scores, first, scale, out.lse + first, *out.largest);
    if (rounds) round_block(scores);
    gemm(Trans::no, Trans::no, T{1}, scores, values.row_block(0, visible), T{0}, out.o.row_block(first, rows));
  }
}

template <class T>
void head_backward(const HeadShape& shape, const HeadInputs<T>& in, bool rounds, const HeadGradients<T>& g) {
  const Index length = shape.length, dq = shape.qk(), dv = shape.value, stride = padded(length);
  ScratchPieces<T> pieces(2 * padded(length * dq) + padded(length * dv) + padded(kQueryBlock * dq) +
                          padded(kQueryBlock * dv) + 2 * kQueryBlock * stride);
  const Matrix<T> keys = pieces.take(length, dq), dkeys = pieces.take(length, dq), values = pieces.take(length, dv);
  const Matrix<T> all_q = pieces.take(kQueryBlock, dq), all_d_o = pieces.take(kQueryBlock, dv);
  const Matrix<T> all_s = pieces.take(kQueryBlock, length, stride), all_dp = pieces.take(kQueryBlock, length, stride);
  take_keys(in, rounds, keys);
  take(in.v, rounds, values);
  const T scale = score_scale<T>(shape);
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
    score_gradient_block(s, dp, first, scale, g);
    if (rounds) round_block(s), round_block(dp);
    gemm(Trans::yes, Trans::no, T{1}, s, d_o, add, g.dv.row_block(0, visible));
    gemm(Trans::no, Trans::no, T{1}, dp, keys.row_block(0, visible), T{0}, g.dq.row_block(first, rows));
    gemm(Trans::yes, Trans::no, T{1}, dp, q, add, dkeys.row_block(0, visible));
  }
  for (Index token = 0; token < length; ++token) {
    std::copy_n(dkeys.row(token), shape.nope, g.dk_nope.row(token));
    std::copy_n(dkeys.row(token) + shape.nope, shape.rope, g.dk_rope.row(token));
  }
}

#define INSTANTIATE(T)                                                                                \
  template void head_forward<T>(const HeadShape&, const HeadInputs<T>&, bool, const HeadOutputs<T>&); \
  template void head_backward<T>(const HeadShape&, const HeadInputs<T>&, bool, const HeadGradients<T>&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
