#include "core/model/layers/attention_kind.h"

#include <algorithm>
#include <type_traits>

#include "core/model/layers/arena.h"
#include "core/model/layers/rms_norm.h"
#include "core/numerics/bf16_rounding.h"

namespace moescope {
namespace {

template <class T>
void append(std::vector<T>& values, const Matrix<const T>& rows, Index row, Index first_col, Index cols) {
  const T* first = rows.row(row) + first_col;
  values.insert(values.end(), first, first + cols);
}

// Adds the new keys and values to the cache, and returns all keys and values in the cache.
template <class T>
ProjectedRows<T> cached(const AttentionShape& shape, const ProjectedRows<T>& rows, KeyValues<T>& cache) {
  const Index shared = rows.shared_key.cols, head_width = shape.query_dim - shared;
  for (Index t = 0; t < rows.q.rows; ++t)
    for (Index g = 0; g < shape.key_heads; ++g) {
      append(cache.k, rows.keys, t, g * rows.key_step, head_width);
      append(cache.k, rows.shared_key, t, 0, shared);
      append(cache.v, rows.values, t, g * rows.value_step, shape.value_dim);
    }
  const Index key_cols = shape.key_heads * shape.query_dim, value_cols = shape.key_heads * shape.value_dim;
  const Index tokens = std::ssize(cache.k) / key_cols;
  return {.q = {},
          .keys = {cache.k.data(), tokens, key_cols},
          .shared_key = {cache.k.data(), tokens, Index{0}, key_cols},
          .values = {cache.v.data(), tokens, value_cols},
          .key_step = shape.query_dim,
          .value_step = shape.value_dim};
}

template <class T>
void head_pass(HeadArithmetic arithmetic, const HeadInputs<T>& in, const HeadOutputs<T>& out) {
  if constexpr (std::is_same_v<T, float>)
    if (arithmetic == HeadArithmetic::units) return head_forward_on_units(in, out);
  head_forward(in, arithmetic == HeadArithmetic::rounded, out);
}

// Normalizes groups of as many values as there are gains: single heads or whole rows. The rows of x must have no gaps.
void norm_heads(const Matrix<float>& x, std::span<const float> gains, double eps) {
  if (gains.empty()) return;
  const auto width = std::ssize(gains);
  const Matrix<float> parts(x.data, x.rows * x.cols / width, width);
  std::vector<float> inv(parts.rows);
  rms_norm_forward<float>(parts, gains, eps, parts, inv);
}

void clip_all(const Matrix<float>& x, float limit) {
  for (Index i = 0; i < x.size(); ++i) x.data[i] = std::clamp(x.data[i], -limit, limit);
}

}  // namespace

template <class T>
HeadInputs<T> ProjectedRows<T>::head_rows(const AttentionShape& shape, Index head, Index first, Index count) const {
  const Index key_head = head / (shape.heads / shape.key_heads);
  HeadInputs<T> in;
  if (q.rows > 0) in.q = q.block(first, head * shape.query_dim, count, shape.query_dim);
  in.k_nope = keys.block(first, key_head * key_step, count, shape.query_dim - shared_key.cols);
  in.k_rope = shared_key.row_block(first, count);
  in.v = values.block(first, key_head * value_step, count, shape.value_dim);
  in.scale = static_cast<T>(shape.scale);
  in.window = shape.window;
  return in;
}

template <class T>
void AttentionKind<T>::attend(const AttentionPass<T>& pass, const ProjectedRows<T>& rows, const AttendedRows<T>& to,
                              Matrix<T> y) const {
  ProjectedRows<T> earlier;
  if (pass.cache) earlier = cached(shape_, rows, *pass.cache);
  const Index heads = shape_.heads;
  parallel_for(static_cast<int>(heads * (std::ssize(pass.begins) - 1)), [&](int task) {
    const Index sequence = task / heads, head = task % heads;
    const Index first = pass.begins[sequence];
    const Index count = pass.begins[static_cast<std::size_t>(sequence) + 1] - first;
    HeadInputs<T> in = rows.head_rows(shape_, head, first, count);
    if (pass.cache) {
      const Matrix<const T> q = in.q;
      in = earlier.head_rows(shape_, head, 0, earlier.keys.rows);
      in.q = q;
    }
    if (!sinks_.empty()) in.sink = sinks_[head];
    head_pass<T>(pass.rounding.heads, in,
                 {to.o.block(first, head * shape_.value_dim, count, shape_.value_dim),
                  to.lse.subspan(first * heads + head * count, count), to.largest.at(sequence, head)});
  });
  if (pass.rounding.outputs) round_all_to_bf16(to.o);
  output_->forward(to.o, y, true);
}

template struct ProjectedRows<float>;
template struct ProjectedRows<double>;
template class AttentionKind<float>;
template class AttentionKind<double>;

void GroupedAttention::forward(const AttentionPass<float>& pass, ConstMatrix<float> h, Matrix<float> y) const {
  const AttentionShape& s = shape();
  const Index width = s.query_dim, sequences = std::ssize(pass.begins) - 1;
  Arena<float> arena;
  Matrix<float> q, k, v, o, largest;
  std::span<float> lse;
  arena.plan(q, h.rows, s.heads * width);
  arena.plan(k, h.rows, s.key_heads * width);
  arena.plan(v, h.rows, s.key_heads * s.value_dim);
  arena.plan(o, h.rows, s.heads * s.value_dim);
  arena.plan(lse, h.rows * s.heads);
  arena.plan(largest, sequences, s.heads);
  arena.commit(sublayer_memory<float>().sized(arena.size()));
  layers_.q->forward(h, q, false);
  layers_.k->forward(h, k, false);
  layers_.v->forward(h, v, false);
  norm_heads(q, layers_.q_norm, grouped_.norm_eps);
  norm_heads(k, layers_.k_norm, grouped_.norm_eps);
  if (grouped_.clip > 0)
    for (const Matrix<float>& x : {q, k, v}) clip_all(x, static_cast<float>(grouped_.clip));
  for_each_token(pass.positions, [&](Index t, Index position) {
    for (Index i = 0; i < s.heads; ++i) pass.rope.apply(q.values(t).subspan(i * width), position, false);
    for (Index i = 0; i < s.key_heads; ++i) pass.rope.apply(k.values(t).subspan(i * width), position, false);
  });
  attend(pass, {q, k, {k.data, k.rows, Index{0}, k.stride}, v, width, s.value_dim}, {o, lse, largest}, y);
}

}  // namespace moescope
