#include "core/model/layers/grouped_attention.h"

#include <algorithm>

#include "core/model/layers/arena.h"
#include "core/model/layers/rms_norm.h"

namespace moescope {
namespace {

// Normalizes groups of as many values as there are gains: single heads or whole rows. The rows of x must have no gaps.
void norm_heads(const Matrix<float>& x, std::span<const float> gains, double eps) {
  if (gains.empty()) return;
  const auto width = std::ssize(gains);
  const Matrix<float> parts(x.data, x.rows * x.cols / width, width);
  std::vector<float> inv(parts.rows);
  rms_norm_forward<float>(parts, gains.data(), eps, parts, inv.data());
}

void clip_all(const Matrix<float>& x, float limit) {
  for (Index i = 0; i < x.size(); ++i) x.data[i] = std::clamp(x.data[i], -limit, limit);
}

}  // namespace

void GroupedAttention::forward(const AttentionPass<float>& pass, ConstMatrix<float> h, Matrix<float> y) const {
  const AttentionShape& s = shape();
  const Index width = s.query_dim, sequences = std::ssize(pass.begins) - 1;
  Arena<float> arena;
  Matrix<float> q, k, v, o;
  float *lse, *largest;
  arena.plan(q, h.rows, s.heads * width);
  arena.plan(k, h.rows, s.key_heads * width);
  arena.plan(v, h.rows, s.key_heads * s.value_dim);
  arena.plan(o, h.rows, s.heads * s.value_dim);
  arena.plan(lse, h.rows * s.heads);
  arena.plan(largest, sequences * s.heads);
  arena.commit(half_memory<float>().sized(arena.size()));
  layers_.q->forward(h, q, false);
  layers_.k->forward(h, k, false);
  layers_.v->forward(h, v, false);
  norm_heads(q, layers_.q_norm, grouped_.norm_eps);
  norm_heads(k, layers_.k_norm, grouped_.norm_eps);
  if (grouped_.clip > 0)
    for (const Matrix<float>& x : {q, k, v}) clip_all(x, static_cast<float>(grouped_.clip));
  for_each_token(pass.positions, [&](Index t, Index position) {
    for (Index i = 0; i < s.heads; ++i) pass.rope.apply(q.row(t) + i * width, position, false);
    for (Index i = 0; i < s.key_heads; ++i) pass.rope.apply(k.row(t) + i * width, position, false);
  });
  attend(pass, {q, k, {k.data, k.rows, Index{0}, k.stride}, v, width, s.value_dim}, {o, lse, largest}, y);
}

}  // namespace moescope
