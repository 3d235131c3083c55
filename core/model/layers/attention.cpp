#include "core/model/layers/attention.h"

#include <algorithm>
#include <type_traits>

#include "core/model/layers/linear.h"
#include "core/model/layers/rms_norm.h"
#include "core/numerics/bf16_rounding.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr Index kAttentionTokens = 64;

enum class Arithmetic { full, rounded, units };  // FP32; BF16 numbers by sgemm; BF16 numbers by matrix units

template <class T>
Arithmetic arithmetic_of(const LayerPrecision& precision) {
  if (!precision.step) return Arithmetic::full;
  const auto& formats = precision.step->of(GemmClass::attention).formats;
  if (std::ranges::any_of(formats, [](const auto& f) { return f.scheme == QuantScheme::fp32; }))
    return Arithmetic::full;
  return std::is_same_v<T, float> && has_matrix_unit() ? Arithmetic::units : Arithmetic::rounded;
}

bool rounds_norms(const LayerPrecision& precision) {
  return precision.step && precision.step->bf16_activations;
}

bool rounds_outputs(const LayerPrecision& precision) {
  return precision.step && precision.step->of(GemmClass::attention).bf16_output;
}

}  // namespace

template <class T>
void AttentionActivations<T>::plan(Arena<T>& arena, const ModelConfig& c, Index sequences, Index length) {
  const Index tokens = sequences * length;
  arena.plan(h, tokens, c.dim);
  arena.plan(h_inv, tokens);
  arena.plan(qa, tokens, c.q_lora_rank);
  arena.plan(qa_normed, tokens, c.q_lora_rank);
  arena.plan(qa_inv, tokens);
  arena.plan(q, tokens, c.n_heads * (c.qk_nope_head_dim + c.qk_rope_head_dim));
  arena.plan(kva, tokens, c.kv_lora_rank + c.qk_rope_head_dim);
  arena.plan(latent, tokens, c.kv_lora_rank);
  arena.plan(latent_inv, tokens);
  arena.plan(kv, tokens, c.n_heads * (c.qk_nope_head_dim + c.v_head_dim));
  arena.plan(lse, sequences * c.n_heads, length);
  arena.plan(largest, sequences * c.n_heads);
  arena.plan(o, tokens, c.n_heads * c.v_head_dim);
}

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
  arena.plan(dh, tokens, c.dim);
  arena.plan(norm_partial, rms_norm_partials(tokens) * std::max({c.dim, c.q_lora_rank, c.kv_lora_rank}));
}

template <class T>
void Attention<T>::forward(const LayerView<T>& w, ConstMatrix<T> x, AttentionActivations<T>& a, Matrix<T> y,
                           const LayerPrecision& precision) const {
  rms_norm_forward<T>(x, w.attention_norm, c_.norm_eps, a.h, a.h_inv);
  if (rounds_norms(precision)) round_all_to_bf16(a.h);
  if (c_.q_lora_rank > 0) {
    linear_forward<T>(a.h, w.wq_a, a.qa, false, precision.of(Gemm::wq_a));
    rms_norm_forward<T>(a.qa, w.q_norm, c_.norm_eps, a.qa_normed, a.qa_inv);
    if (rounds_norms(precision)) round_all_to_bf16(a.qa_normed);
    linear_forward<T>(a.qa_normed, w.wq_b, a.q, false, precision.of(Gemm::wq_b));
  } else {
    linear_forward<T>(a.h, w.wq, a.q, false, precision.of(Gemm::wq));
  }
  linear_forward<T>(a.h, w.wkv_a, a.kva, false, precision.of(Gemm::wkv_a));
  rms_norm_forward<T>(a.kva.col_block(0, c_.kv_lora_rank), w.kv_norm, c_.norm_eps, a.latent, a.latent_inv);
  if (rounds_norms(precision)) round_all_to_bf16(a.latent);
  linear_forward<T>(a.latent, w.wkv_b, a.kv, false, precision.of(Gemm::wkv_b));
  rotate(a);
  const Arithmetic arithmetic = arithmetic_of<T>(precision);
  parallel_for(sequences_ * c_.n_heads, [&](int task) {
    const int sequence = task / c_.n_heads, head = task % c_.n_heads;
    if constexpr (std::is_same_v<T, float>)
      if (arithmetic == Arithmetic::units)
        return head_forward_on_units(head_shape(), head_inputs(sequence, head, a), head_outputs(sequence, head, a));
    head_forward(head_shape(), head_inputs(sequence, head, a), arithmetic == Arithmetic::rounded,
                 head_outputs(sequence, head, a));
  });
  if (rounds_outputs(precision)) round_all_to_bf16(a.o);
  parallel_copy(x.data, x.size(), y.data);
  linear_forward<T>(a.o, w.wo, y, true, precision.of(Gemm::wo));
}

template <class T>
void Attention<T>::backward(const LayerView<T>& w, const LayerView<T>& g, ConstMatrix<T> x,
                            const AttentionActivations<T>& a, AttentionWorkspace<T>& ws, Matrix<T> dx,
                            const LayerPrecision& precision) const {
  linear_backward<T>(dx, a.o, w.wo, g.wo, ws.d_o, false, precision.of(Gemm::wo));
  const Arithmetic arithmetic = arithmetic_of<T>(precision);
  parallel_for(sequences_ * c_.n_heads, [&](int task) {
    const int sequence = task / c_.n_heads, head = task % c_.n_heads;
    if constexpr (std::is_same_v<T, float>)
      if (arithmetic == Arithmetic::units)
        return head_backward_on_units(head_shape(), head_inputs(sequence, head, a),
                                      head_gradients(sequence, head, a, ws));
    head_backward(head_shape(), head_inputs(sequence, head, a), arithmetic == Arithmetic::rounded,
                  head_gradients(sequence, head, a, ws));
  });
  rotate_back(ws);
  if (rounds_outputs(precision))
    for (const Matrix<T>& gradient : {ws.dq, ws.dkv}) round_all_to_bf16(gradient);
  const auto gradient_of = [&](T* dweight, Index dim) {
    return NormGradient<T>{dweight, {ws.norm_partial, rms_norm_partials(x.rows), dim}, precision.shard_rows};
  };
  linear_backward<T>(ws.dkv, a.latent, w.wkv_b, g.wkv_b, ws.dlatent, false, precision.of(Gemm::wkv_b));
  const Index latent = c_.kv_lora_rank;
  rms_norm_backward<T>(ws.dlatent, {a.kva.col_block(0, latent), w.kv_norm, a.latent_inv}, ws.dkva.col_block(0, latent),
                       false, gradient_of(g.kv_norm, latent));
  if (rounds_outputs(precision)) round_all_to_bf16(ws.dkva);
  linear_backward<T>(ws.dkva, a.h, w.wkv_a, g.wkv_a, ws.dh, false, precision.of(Gemm::wkv_a));
  if (c_.q_lora_rank > 0) {
    linear_backward<T>(ws.dq, a.qa_normed, w.wq_b, g.wq_b, ws.dqa_normed, false, precision.of(Gemm::wq_b));
    rms_norm_backward<T>(ws.dqa_normed, {a.qa, w.q_norm, a.qa_inv}, ws.dqa, false,
                         gradient_of(g.q_norm, c_.q_lora_rank));
    if (rounds_outputs(precision)) round_all_to_bf16(ws.dqa);
    linear_backward<T>(ws.dqa, a.h, w.wq_a, g.wq_a, ws.dh, true, precision.of(Gemm::wq_a));
  } else {
    linear_backward<T>(ws.dq, a.h, w.wq, g.wq, ws.dh, true, precision.of(Gemm::wq));
  }
  rms_norm_backward<T>(ws.dh, {x, w.attention_norm, a.h_inv}, dx, true, gradient_of(g.attention_norm, c_.dim));
}

template <class T>
void Attention<T>::rotate(AttentionActivations<T>& a) const {
  parallel_slices(tokens(), kAttentionTokens, [&](Index first, Index last) {
    for (Index t = first; t < last; ++t) {
      const Index position = t % length_;
      rope_.apply(a.kva.row(t) + c_.kv_lora_rank, position);
      for (int head = 0; head < c_.n_heads; ++head)
        rope_.apply(a.q.row(t) + head * head_dim() + c_.qk_nope_head_dim, position);
    }
  });
}

// Also sums the heads' parts of the shared key's gradient, in head order.
template <class T>
void Attention<T>::rotate_back(AttentionWorkspace<T>& ws) const {
  const Index rope_dim = c_.qk_rope_head_dim;
  parallel_slices(tokens(), kAttentionTokens, [&](Index first, Index last) {
    for (Index t = first; t < last; ++t) {
      const Index position = t % length_;
      T* shared = ws.dkva.row(t) + c_.kv_lora_rank;
      std::fill_n(shared, rope_dim, T{0});
      for (int head = 0; head < c_.n_heads; ++head) {
        const T* share = ws.dk_rope.row(Index{head} * tokens() + t);
        for (Index j = 0; j < rope_dim; ++j) shared[j] += share[j];
        rope_.apply_back(ws.dq.row(t) + head * head_dim() + c_.qk_nope_head_dim, position);
      }
      rope_.apply_back(shared, position);
    }
  });
}

template <class T>
HeadShape Attention<T>::head_shape() const {
  return {length_, c_.qk_nope_head_dim, c_.qk_rope_head_dim, c_.v_head_dim};
}

// Returns some columns of the tokens of a sequence.
template <class T>
template <class N>
Matrix<N> Attention<T>::of_head(const Matrix<N>& all, int sequence, Index first_col, Index cols) const {
  return all.block(Index{sequence} * length_, first_col, length_, cols);
}

template <class T>
HeadInputs<T> Attention<T>::head_inputs(int sequence, int head, const AttentionActivations<T>& a) const {
  const Index kv = head * (c_.qk_nope_head_dim + c_.v_head_dim);
  return {of_head(a.q, sequence, head * head_dim(), head_dim()), of_head(a.kv, sequence, kv, c_.qk_nope_head_dim),
          of_head(a.kva, sequence, c_.kv_lora_rank, c_.qk_rope_head_dim),
          of_head(a.kv, sequence, kv + c_.qk_nope_head_dim, c_.v_head_dim)};
}

template <class T>
HeadOutputs<T> Attention<T>::head_outputs(int sequence, int head, AttentionActivations<T>& a) const {
  const Index place = sequence * c_.n_heads + head;
  return {of_head(a.o, sequence, head * c_.v_head_dim, c_.v_head_dim), a.lse.row(place), a.largest + place};
}

template <class T>
HeadGradients<T> Attention<T>::head_gradients(int sequence, int head, const AttentionActivations<T>& a,
                                              AttentionWorkspace<T>& ws) const {
  const Index nope = c_.qk_nope_head_dim, value = c_.v_head_dim, kv = head * (nope + value);
  return {of_head(a.o, sequence, head * value, value),
          of_head(ws.d_o, sequence, head * value, value),
          a.lse.row(sequence * c_.n_heads + head),
          of_head(ws.dq, sequence, head * head_dim(), head_dim()),
          of_head(ws.dkv, sequence, kv, nope),
          ws.dk_rope.row_block(Index{head} * tokens() + Index{sequence} * length_, length_),
          of_head(ws.dkv, sequence, kv + nope, value)};
}

template struct AttentionActivations<float>;
template struct AttentionActivations<double>;
template struct AttentionWorkspace<float>;
template struct AttentionWorkspace<double>;
template class Attention<float>;
template class Attention<double>;

}  // namespace moescope
