#include "core/model/layers/latent_attention.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/model/layers/rms_norm.h"
#include "core/numerics/bf16_rounding.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

template <class T>
HeadArithmetic arithmetic_of(const StepPrecision& step) {
  const auto& formats = step.class_precision(GemmClass::attention).formats;
  if (std::ranges::any_of(formats, [](const auto& f) { return f.scheme == QuantScheme::fp32; }))
    return HeadArithmetic::full;
  return std::is_same_v<T, float> && has_matrix_unit() ? HeadArithmetic::units : HeadArithmetic::rounded;
}

template <class T>
AttentionRounding rounding_of(const LayerPrecision& precision) {
  if (!precision.step) return {};
  return {.norms = precision.step->bf16_activations,
          .outputs = precision.step->class_precision(GemmClass::attention).bf16_output,
          .heads = arithmetic_of<T>(*precision.step)};
}

}  // namespace

template <class T>
void AttentionActivations<T>::plan(Arena<T>& arena, const LatentShape& s, Index heads, Index tokens, Index sequences) {
  arena.plan(qa, tokens, s.q_rank);
  arena.plan(qa_normed, tokens, s.q_rank);
  arena.plan(qa_inv, tokens);
  arena.plan(q, tokens, heads * (s.nope + s.rope));
  arena.plan(kva, tokens, s.kv_rank + s.rope);
  arena.plan(latent, tokens, s.kv_rank);
  arena.plan(latent_inv, tokens);
  arena.plan(kv, tokens, heads * (s.nope + s.value));
  arena.plan(attended.lse, tokens * heads);
  arena.plan(attended.largest, sequences, heads);
  arena.plan(attended.o, tokens, heads * s.value);
}

template <class T>
ProjectedRows<T> AttentionActivations<T>::projected(const LatentShape& s) const {
  return {.q = q,
          .keys = kv,
          .shared_key = kva.col_block(s.kv_rank, s.rope),
          .values = kv.col_block(s.nope, kv.cols - s.nope),
          .key_step = s.nope + s.value,
          .value_step = s.nope + s.value};
}

template <class T>
void LatentAttention<T>::forward(const AttentionPass<T>& pass, ConstMatrix<T> h, Matrix<T> y) const {
  AttentionActivations<T> local_activations;
  if (!activations_) {
    Arena<T> arena;
    local_activations.plan(arena, latent_, this->shape().heads, h.rows, std::ssize(pass.begins) - 1);
    arena.commit(sublayer_memory<T>().sized(arena.size()));
  }
  AttentionActivations<T>& a = activations_ ? *activations_ : local_activations;
  project(pass, h, a);
  this->attend(pass, a.projected(latent_), a.attended, y);
}

template <class T>
void LatentAttention<T>::project(const AttentionPass<T>& pass, ConstMatrix<T> h, AttentionActivations<T>& a) const {
  const Index rank = latent_.kv_rank, nope = latent_.nope, width = nope + latent_.rope;
  const auto norm = [&](ConstMatrix<T> x, std::span<const T> gain, const Matrix<T>& to, std::span<T> inv) {
    rms_norm_forward<T>(x, gain, latent_.norm_eps, to, inv);
    if (pass.rounding.norms) round_all_to_bf16(to);
  };
  if (latent_.q_rank > 0) {
    layers_.q_a->forward(h, a.qa, false);
    norm(a.qa, layers_.q_norm, a.qa_normed, a.qa_inv);
    layers_.q_b->forward(a.qa_normed, a.q, false);
  } else {
    layers_.q->forward(h, a.q, false);
  }
  layers_.kv_a->forward(h, a.kva, false);
  norm(a.kva.col_block(0, rank), layers_.kv_norm, a.latent, a.latent_inv);
  layers_.kv_b->forward(a.latent, a.kv, false);
  for_each_token(pass.positions, [&](Index t, Index position) {
    pass.rope.apply(a.kva.values(t).subspan(rank), position, latent_.interleaved);
    for (Index head = 0; head < this->shape().heads; ++head)
      pass.rope.apply(a.q.values(t).subspan(head * width + nope), position, latent_.interleaved);
  });
}

template struct AttentionActivations<float>;
template struct AttentionActivations<double>;
template class LatentAttention<float>;
template class LatentAttention<double>;

template <class T>
void AttentionWorkspace<T>::plan(Arena<T>& arena, const ModelConfig& c, Index tokens) {
  arena.plan(dq, tokens, c.n_heads * (c.qk_nope_head_dim + c.qk_rope_head_dim));
  arena.plan(dkv, tokens, c.n_heads * (c.qk_nope_head_dim + c.v_head_dim));
  arena.plan(d_o, tokens, c.n_heads * c.v_head_dim);
  arena.plan(dkva, tokens, c.kv_lora_rank + c.qk_rope_head_dim);
  arena.plan(dlatent, tokens, c.kv_lora_rank);
  arena.plan(dqa, tokens, c.q_lora_rank);
  arena.plan(dqa_normed, tokens, c.q_lora_rank);
  arena.plan(dk_rope, c.n_heads * tokens, c.qk_rope_head_dim);
  arena.plan(norm_partial, rms_norm_partials(tokens), std::max(c.q_lora_rank, c.kv_lora_rank));
}

template <class T>
Attention<T>::Attention(const ModelConfig& c, int sequences, int length)
    : latent_{.q_rank = c.q_lora_rank,
              .kv_rank = c.kv_lora_rank,
              .nope = c.qk_nope_head_dim,
              .rope = c.qk_rope_head_dim,
              .value = c.v_head_dim,
              .norm_eps = c.norm_eps},
      shape_{.heads = c.n_heads,
             .key_heads = c.n_heads,
             .query_dim = c.qk_nope_head_dim + c.qk_rope_head_dim,
             .value_dim = c.v_head_dim},
      length_(length),
      begins_{0},
      rope_(Rope<T>::plain(length, c.qk_rope_head_dim, c.rope_theta)) {
  shape_.scale = static_cast<double>(T{1} / std::sqrt(static_cast<T>(shape_.query_dim)));
  for (int i = 0; i < sequences; ++i) {
    for (Index t = 0; t < length; ++t) positions_.push_back(t);
    begins_.push_back(tokens());
  }
}

template <class T>
void Attention<T>::plan(Arena<T>& arena, AttentionActivations<T>& a) const {
  a.plan(arena, latent_, shape_.heads, tokens(), std::ssize(begins_) - 1);
}

template <class T>
void Attention<T>::forward(const LayerView<T>& w, ConstMatrix<T> h, AttentionActivations<T>& a, Matrix<T> y,
                           const LayerPrecision& precision) const {
  const MasterLinear<T> q(w.wq, precision.linear_precision(Gemm::wq)),
      q_a(w.wq_a, precision.linear_precision(Gemm::wq_a)), q_b(w.wq_b, precision.linear_precision(Gemm::wq_b)),
      kv_a(w.wkv_a, precision.linear_precision(Gemm::wkv_a)), kv_b(w.wkv_b, precision.linear_precision(Gemm::wkv_b)),
      output(w.wo, precision.linear_precision(Gemm::wo));
  const LatentLayers<T> layers{&q, &q_a, &q_b, &kv_a, &kv_b, &output, w.q_norm, w.kv_norm};
  LatentAttention<T>(shape_, latent_, layers, &a)
      .forward({.begins = begins_, .positions = positions_, .rope = rope_, .rounding = rounding_of<T>(precision)}, h,
               y);
}

template <class T>
void Attention<T>::heads_backward(const AttentionActivations<T>& a, AttentionWorkspace<T>& ws,
                                  HeadArithmetic arithmetic) const {
  const ProjectedRows<T> rows = a.projected(latent_);
  parallel_for(to_int(shape_.heads * (std::ssize(begins_) - 1)), [&](int task) {
    const Index sequence = task / shape_.heads, head = task % shape_.heads;
    const HeadInputs<T> in = rows.head_rows(shape_, head, sequence * length_, length_);
    const HeadGradients<T> gradients = head_gradients(sequence, head, a, ws);
    if constexpr (std::is_same_v<T, float>)
      if (arithmetic == HeadArithmetic::units) return head_backward_on_units(in, gradients);
    head_backward(in, arithmetic == HeadArithmetic::rounded, gradients);
  });
}

template <class T>
void Attention<T>::backward(const LayerView<T>& w, ConstMatrix<T> h, ConstMatrix<T> dy,
                            const AttentionActivations<T>& a, const AttentionGradients<T>& gradients,
                            const LayerPrecision& precision) const {
  const LayerView<T>& g = gradients.weights;
  AttentionWorkspace<T>& ws = gradients.workspace;
  const AttentionRounding rounding = rounding_of<T>(precision);
  linear_backward<T>(dy, a.attended.o, w.wo, g.wo, ws.d_o, false, precision.linear_precision(Gemm::wo));
  heads_backward(a, ws, rounding.heads);
  rotate_back(ws);
  if (rounding.outputs)
    for (const Matrix<T>& gradient : {ws.dq, ws.dkv}) round_all_to_bf16(gradient);
  const auto gradient_of = [&](std::span<T> dweight) {
    return NormGradient<T>{dweight, ws.norm_partial.col_block(0, std::ssize(dweight)), precision.shard_rows};
  };
  linear_backward<T>(ws.dkv, a.latent, w.wkv_b, g.wkv_b, ws.dlatent, false, precision.linear_precision(Gemm::wkv_b));
  const Index latent = latent_.kv_rank;
  rms_norm_backward<T>(ws.dlatent, {a.kva.col_block(0, latent), w.kv_norm, a.latent_inv}, ws.dkva.col_block(0, latent),
                       false, gradient_of(g.kv_norm));
  if (rounding.outputs) round_all_to_bf16(ws.dkva);
  linear_backward<T>(ws.dkva, h, w.wkv_a, g.wkv_a, gradients.dh, false, precision.linear_precision(Gemm::wkv_a));
  if (latent_.q_rank > 0) {
    linear_backward<T>(ws.dq, a.qa_normed, w.wq_b, g.wq_b, ws.dqa_normed, false,
                       precision.linear_precision(Gemm::wq_b));
    rms_norm_backward<T>(ws.dqa_normed, {a.qa, w.q_norm, a.qa_inv}, ws.dqa, false, gradient_of(g.q_norm));
    if (rounding.outputs) round_all_to_bf16(ws.dqa);
    linear_backward<T>(ws.dqa, h, w.wq_a, g.wq_a, gradients.dh, true, precision.linear_precision(Gemm::wq_a));
  } else {
    linear_backward<T>(ws.dq, h, w.wq, g.wq, gradients.dh, true, precision.linear_precision(Gemm::wq));
  }
}

// Sums the heads' parts of the shared key's gradient, in head order, and rotates the gradients of queries and of the
// shared key back.
template <class T>
void Attention<T>::rotate_back(AttentionWorkspace<T>& ws) const {
  const Index rope_dim = latent_.rope;
  for_each_token(positions_, [&](Index t, Index position) {
    const std::span<T> shared = ws.dkva.values(t).subspan(latent_.kv_rank);
    std::ranges::fill(shared, T{0});
    for (Index head = 0; head < shape_.heads; ++head) {
      const T* share = ws.dk_rope.row(head * tokens() + t);
      for (Index j = 0; j < rope_dim; ++j) shared[j] += share[j];
      rope_.apply_back(ws.dq.values(t).subspan(head * shape_.query_dim + latent_.nope), position);
    }
    rope_.apply_back(shared, position);
  });
}

template <class T>
HeadGradients<T> Attention<T>::head_gradients(Index sequence, Index head, const AttentionActivations<T>& a,
                                              AttentionWorkspace<T>& ws) const {
  const Index nope = latent_.nope, value = latent_.value, kv = head * (nope + value), width = shape_.query_dim;
  const auto head_block = [&](const auto& all, Index first_col, Index cols) {
    return all.block(sequence * length_, first_col, length_, cols);
  };
  return {head_block(a.attended.o, head * value, value),
          head_block(ws.d_o, head * value, value),
          a.attended.lse.subspan((sequence * shape_.heads + head) * length_, length_),
          head_block(ws.dq, head * width, width),
          head_block(ws.dkv, kv, nope),
          ws.dk_rope.row_block(head * tokens() + sequence * length_, length_),
          head_block(ws.dkv, kv + nope, value)};
}

template struct AttentionWorkspace<float>;
template struct AttentionWorkspace<double>;
template class Attention<float>;
template class Attention<double>;

}  // namespace moescope
