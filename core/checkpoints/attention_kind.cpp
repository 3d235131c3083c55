#include "core/checkpoints/attention_kind.h"

#include <algorithm>

#include "core/checkpoints/float_matrix.h"
#include "core/model/layers/rms_norm.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr Index kTokens = 64;  // tokens of a task

void norm_rows(ConstMatrix<float> x, const std::vector<float>& weight, double eps, Matrix<float> y) {
  std::vector<float> inv(static_cast<std::size_t>(x.rows));
  rms_norm_forward<float>(x, weight.data(), eps, y, inv.data());
}

// Normalizes each head or the whole row: groups of as many values as there are gains. Rows have no gaps.
void norm_heads(const Matrix<float>& x, const std::vector<float>& weight, double eps) {
  if (weight.empty()) return;
  const auto width = static_cast<Index>(weight.size());
  const Matrix<float> parts(x.data, x.rows * x.cols / width, width);
  norm_rows(parts, weight, eps, parts);
}

void clip_all(const Matrix<float>& x, float limit) {
  for (Index r = 0; r < x.rows; ++r)
    for (Index i = 0; i < x.cols; ++i) x.at(r, i) = std::clamp(x.at(r, i), -limit, limit);
}

// Calls body(token, its position) on all threads.
void for_each_token(const AttentionCall& call, const auto& body) {
  parallel_slices(call.positions.size(), kTokens, [&](std::size_t first, std::size_t last) {
    for (std::size_t t = first; t < last; ++t) body(static_cast<Index>(t), call.positions[t]);
  });
}

// Appends the new rows to the cache and returns all of them.
Matrix<const float> cached(std::vector<float>& rows, const Matrix<float>& more) {
  rows.insert(rows.end(), more.data, more.data + more.size());
  return {rows.data(), static_cast<Index>(rows.size()) / more.cols, more.cols};
}

}  // namespace

void AttentionKind::forward(const AttentionCall& call, ConstMatrix<float> h, Matrix<float> y) const {
  const FloatMatrix q(h.rows, shape_.heads * shape_.query_dim), k(h.rows, shape_.key_heads * shape_.query_dim),
      v(h.rows, shape_.key_heads * shape_.value_dim), o(h.rows, shape_.heads * shape_.value_dim);
  project(call, h, *q, *k, *v);
  Matrix<const float> all_k = *k, all_v = *v;
  if (call.cache) {
    all_k = cached(call.cache->k, *k);
    all_v = cached(call.cache->v, *v);
  }
  AttendShape shape = shape_;
  shape.sinks = sinks_.empty() ? nullptr : sinks_.data();
  parallel_for(static_cast<int>(std::ssize(call.begins) - 1) * static_cast<int>(shape_.heads), [&](int task) {
    const auto sequence = static_cast<std::size_t>(task / shape_.heads);
    const Index first = call.begins[sequence], count = call.begins[sequence + 1] - first;
    // With a cache there is only one sequence.
    const Index first_key = call.cache ? 0 : first, keys = call.cache ? all_k.rows : count;
    const AttendInputs in{q->row_block(first, count), all_k.row_block(first_key, keys),
                          all_v.row_block(first_key, keys)};
    attend_head(shape, in, task % shape_.heads, o->row_block(first, count));
  });
  linear_forward(*o, output_, y);
}

void GroupedAttention::project(const AttentionCall& call, ConstMatrix<float> h, Matrix<float> q, Matrix<float> k,
                               Matrix<float> v) const {
  linear_forward(h, w_.q, q);
  linear_forward(h, w_.k, k);
  linear_forward(h, w_.v, v);
  norm_heads(q, w_.q_norm, norm_eps_);
  norm_heads(k, w_.k_norm, norm_eps_);
  if (clip_ > 0)
    for (const Matrix<float>& x : {q, k, v}) clip_all(x, clip_);
  const Index width = shape().query_dim;
  for_each_token(call, [&](Index t, Index position) {
    for (Index i = 0; i < shape().heads; ++i) call.rope.apply(q.row(t) + i * width, position, false);
    for (Index i = 0; i < shape().key_heads; ++i) call.rope.apply(k.row(t) + i * width, position, false);
  });
}

void LatentAttention::project(const AttentionCall& call, ConstMatrix<float> h, Matrix<float> q, Matrix<float> k,
                              Matrix<float> v) const {
  if (w_.q.empty()) {
    const FloatMatrix low(h.rows, latent_.q_rank);
    linear_forward(h, w_.q_a, *low);
    norm_rows(*low, w_.q_norm, kLatentNormEps, *low);
    linear_forward(*low, w_.q_b, q);
  } else {
    linear_forward(h, w_.q, q);
  }
  const Index rank = latent_.kv_rank, nope = latent_.nope, rope = latent_.rope, value = latent_.value;
  const FloatMatrix kva(h.rows, rank + rope), latent(h.rows, rank), kv(h.rows, shape().heads * (nope + value));
  linear_forward(h, w_.kv_a, *kva);
  norm_rows(kva->col_block(0, rank), w_.kv_norm, kLatentNormEps, *latent);
  linear_forward(*latent, w_.kv_b, *kv);
  for_each_token(call, [&](Index t, Index position) {
    float* shared_key = kva->row(t) + rank;
    call.rope.apply(shared_key, position, latent_.interleaved);
    for (Index head = 0; head < shape().heads; ++head) {
      const float* own = kv->row(t) + head * (nope + value);
      float* key = k.row(t) + head * (nope + rope);
      std::copy_n(own, nope, key);
      std::copy_n(shared_key, rope, key + nope);
      std::copy_n(own + nope, value, v.row(t) + head * value);
      call.rope.apply(q.row(t) + head * (nope + rope) + nope, position, latent_.interleaved);
    }
  });
}

}  // namespace moescope
