#include "core/checkpoints/attend.h"

#include <algorithm>
#include <vector>

#include "core/numerics/gemm.h"
#include "core/numerics/kernels/row_math.h"

namespace moescope {
namespace {

constexpr Index kQueryBlock = 64;

// Takes the softmax over the keys [from, to) of a row, and over `sink` if it is not nullptr. Other keys get 0.
void softmax_of_visible(float* scores, Index keys, Index from, Index to, const float* sink) {
  if (sink) scores[to] = *sink;  // the row has room for one more value
  softmax_row(scores + from, static_cast<std::size_t>(to - from + (sink ? 1 : 0)), 1.0f, scores + from);
  std::fill(scores, scores + from, 0.0f);
  std::fill(scores + to, scores + keys + 1, 0.0f);
}

}  // namespace

void attend_head(const AttendShape& shape, const AttendInputs& in, Index head, Matrix<float> out) {
  const Index key_head = head / (shape.heads / shape.key_heads), before = in.k.rows - in.q.rows;
  const Matrix<const float> q = in.q.col_block(head * shape.query_dim, shape.query_dim);
  const Matrix<const float> k = in.k.col_block(key_head * shape.query_dim, shape.query_dim);
  const Matrix<const float> v = in.v.col_block(key_head * shape.value_dim, shape.value_dim);
  const Matrix<float> o = out.col_block(head * shape.value_dim, shape.value_dim);
  thread_local std::vector<float> memory;
  for (Index first = 0; first < q.rows; first += kQueryBlock) {
    const Index rows = std::min(kQueryBlock, q.rows - first), last = before + first + rows;
    const Index begin = shape.window > 0 ? std::max<Index>(0, before + first + 1 - shape.window) : 0;
    const Index keys = last - begin;
    memory.resize(static_cast<std::size_t>(kQueryBlock * (keys + 1)));
    const Matrix<float> scores(memory.data(), rows, keys, keys + 1);
    gemm(Trans::no, Trans::yes, shape.scale, q.row_block(first, rows), k.row_block(begin, keys), 0.0f, scores);
    for (Index r = 0; r < rows; ++r) {
      const Index own = before + first + r;
      const Index from = shape.window > 0 ? std::max<Index>(0, own + 1 - shape.window) - begin : 0;
      softmax_of_visible(scores.row(r), keys, from, own + 1 - begin, shape.sinks ? shape.sinks + head : nullptr);
    }
    gemm(Trans::no, Trans::no, 1.0f, scores, v.row_block(begin, keys), 0.0f, o.row_block(first, rows));
  }
}

}  // namespace moescope
