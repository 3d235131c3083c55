#include "core/model/layers/attention.h"

#include <algorithm>
#include <type_traits>

#include "core/model/layers/linear.h"
#include "core/model/layers/rms_norm.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/threads.h"
#include "core/numerics/size.h"

namespace moescope {
namespace {

constexpr std::size_t kAttentionTokens = 64;

enum class Arithmetic { full, rounded, units };  // FP32; BF16 numbers by sgemm or by matrix units

template <class T>
Arithmetic arithmetic_of(const LayerPrecision& precision) {
  if (!precision.step) return Arithmetic::full;
  const auto& formats = precision.step->of(GemmClass::attention).formats;
  if (std::ranges::any_of(formats, [](const auto& f) { return f.scheme == QuantScheme::fp32; }))
    return Arithmetic::full;
  return std::is_same_v<T, float> && has_matrix_unit() ? Arithmetic::units : Arithmetic::rounded;
}

}  // namespace

template <class T>
void AttentionActivations<T>::plan(Arena<T>& arena, const ModelConfig& c, std::size_t sequences, std::size_t length) {
  const std::size_t tokens = sequences * length, heads = size(c.n_heads), low_rank = size(c.q_lora_rank);
  arena.plan(h, tokens * size(c.dim));
  arena.plan(h_inv, tokens);
  arena.plan(qa, tokens * low_rank);
  arena.plan(qa_normed, tokens * low_rank);
  arena.plan(qa_inv, tokens);
  arena.plan(q, tokens * heads * size(c.qk_nope_head_dim + c.qk_rope_head_dim));
  arena.plan(kva, tokens * size(c.kv_lora_rank + c.qk_rope_head_dim));
  arena.plan(latent, tokens * size(c.kv_lora_rank));
  arena.plan(latent_inv, tokens);
  arena.plan(kv, tokens * heads * size(c.qk_nope_head_dim + c.v_head_dim));
  arena.plan(lse, tokens * heads);
  arena.plan(largest, sequences * heads);
  arena.plan(o, tokens * heads * size(c.v_head_dim));
}

template <class T>
void AttentionWorkspace<T>::plan(Arena<T>& arena, const ModelConfig& c, std::size_t tokens) {
  const std::size_t heads = size(c.n_heads), low_rank = size(c.q_lora_rank);
  arena.plan(dq, tokens * heads * size(c.qk_nope_head_dim + c.qk_rope_head_dim));
  arena.plan(dkv, tokens * heads * size(c.qk_nope_head_dim + c.v_head_dim));
  arena.plan(d_o, tokens * heads * size(c.v_head_dim));
  arena.plan(dkva, tokens * size(c.kv_lora_rank + c.qk_rope_head_dim));
  arena.plan(dlatent, tokens * size(c.kv_lora_rank));
  arena.plan(dqa, tokens * low_rank);
  arena.plan(dqa_normed, tokens * low_rank);
  arena.plan(dk_rope, heads * tokens * size(c.qk_rope_head_dim));
  arena.plan(dh, tokens * size(c.dim));
  const int widest = std::max({c.dim, c.q_lora_rank, c.kv_lora_rank});
  arena.plan(norm_partial, size(rms_norm_partials(static_cast<int>(tokens))) * size(widest));
}

template <class T>
void Attention<T>::forward(const LayerView<T>& w, const T* x, AttentionActivations<T>& a, T* y,
                           const LayerPrecision& precision) const {
  const int n = tokens(), dim = c_.dim, q_width = c_.n_heads * head_dim(), latent = c_.kv_lora_rank;
  rms_norm_forward(x, size(dim), n, dim, w.attention_norm, c_.norm_eps, a.h, a.h_inv);
  if (c_.q_lora_rank > 0) {
    linear_forward(a.h, n, dim, w.wq_a, c_.q_lora_rank, a.qa, false, precision.of(Gemm::wq_a));
    rms_norm_forward(a.qa, size(c_.q_lora_rank), n, c_.q_lora_rank, w.q_norm, c_.norm_eps, a.qa_normed, a.qa_inv);
    linear_forward(a.qa_normed, n, c_.q_lora_rank, w.wq_b, q_width, a.q, false, precision.of(Gemm::wq_b));
  } else {
    linear_forward(a.h, n, dim, w.wq, q_width, a.q, false, precision.of(Gemm::wq));
  }
  const int kva_width = latent + c_.qk_rope_head_dim;
  linear_forward(a.h, n, dim, w.wkv_a, kva_width, a.kva, false, precision.of(Gemm::wkv_a));
  rms_norm_forward(a.kva, size(kva_width), n, latent, w.kv_norm, c_.norm_eps, a.latent, a.latent_inv);
  linear_forward(a.latent, n, latent, w.wkv_b, c_.n_heads * (c_.qk_nope_head_dim + c_.v_head_dim), a.kv, false,
                 precision.of(Gemm::wkv_b));
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
  parallel_copy(x, size(n) * size(dim), y);
  linear_forward(a.o, n, c_.n_heads * c_.v_head_dim, w.wo, dim, y, true, precision.of(Gemm::wo));
}

template <class T>
void Attention<T>::backward(const LayerView<T>& w, const LayerView<T>& g, const T* x, const AttentionActivations<T>& a,
                            AttentionWorkspace<T>& ws, T* dx, const LayerPrecision& precision) const {
  const int n = tokens(), dim = c_.dim, q_width = c_.n_heads * head_dim(), latent = c_.kv_lora_rank;
  const int kva_width = latent + c_.qk_rope_head_dim, o_width = c_.n_heads * c_.v_head_dim;
  const int kv_width = c_.n_heads * (c_.qk_nope_head_dim + c_.v_head_dim);
  linear_backward(dx, n, dim, a.o, w.wo, o_width, g.wo, ws.d_o, false, precision.of(Gemm::wo));
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

  linear_backward(ws.dkv, n, kv_width, a.latent, w.wkv_b, latent, g.wkv_b, ws.dlatent, false,
                  precision.of(Gemm::wkv_b));
  rms_norm_backward(ws.dlatent, a.kva, size(kva_width), a.latent_inv, n, latent, w.kv_norm, ws.dkva, size(kva_width),
                    false, g.kv_norm, ws.norm_partial, precision.shard_rows);
  linear_backward(ws.dkva, n, kva_width, a.h, w.wkv_a, dim, g.wkv_a, ws.dh, false, precision.of(Gemm::wkv_a));
  if (c_.q_lora_rank > 0) {
    linear_backward(ws.dq, n, q_width, a.qa_normed, w.wq_b, c_.q_lora_rank, g.wq_b, ws.dqa_normed, false,
                    precision.of(Gemm::wq_b));
    rms_norm_backward(ws.dqa_normed, a.qa, size(c_.q_lora_rank), a.qa_inv, n, c_.q_lora_rank, w.q_norm, ws.dqa,
                      size(c_.q_lora_rank), false, g.q_norm, ws.norm_partial, precision.shard_rows);
    linear_backward(ws.dqa, n, c_.q_lora_rank, a.h, w.wq_a, dim, g.wq_a, ws.dh, true, precision.of(Gemm::wq_a));
  } else {
    linear_backward(ws.dq, n, q_width, a.h, w.wq, dim, g.wq, ws.dh, true, precision.of(Gemm::wq));
  }
  rms_norm_backward(ws.dh, x, size(dim), a.h_inv, n, dim, w.attention_norm, dx, size(dim), true, g.attention_norm,
                    ws.norm_partial, precision.shard_rows);
}

template <class T>
void Attention<T>::rotate(AttentionActivations<T>& a) const {
  const std::size_t kva_width = size(c_.kv_lora_rank + c_.qk_rope_head_dim);
  parallel_slices(size(tokens()), kAttentionTokens, [&](std::size_t first, std::size_t last) {
    for (std::size_t t = first; t < last; ++t) {
      const int position = static_cast<int>(t % size(length_));
      rope_.apply(a.kva + t * kva_width + c_.kv_lora_rank, position, false);
      for (int head = 0; head < c_.n_heads; ++head)
        rope_.apply(a.q + (t * size(c_.n_heads) + size(head)) * size(head_dim()) + c_.qk_nope_head_dim, position,
                    false);
    }
  });
}

// Also sums the heads' shares of the shared key's gradient, in head order.
template <class T>
void Attention<T>::rotate_back(AttentionWorkspace<T>& ws) const {
  const std::size_t rope_dim = size(c_.qk_rope_head_dim), kva_width = size(c_.kv_lora_rank) + rope_dim;
  parallel_slices(size(tokens()), kAttentionTokens, [&](std::size_t first, std::size_t last) {
    for (std::size_t t = first; t < last; ++t) {
      const int position = static_cast<int>(t % size(length_));
      T* shared = ws.dkva + t * kva_width + c_.kv_lora_rank;
      std::fill_n(shared, rope_dim, T{0});
      for (int head = 0; head < c_.n_heads; ++head) {
        const T* share = ws.dk_rope + (size(head) * size(tokens()) + t) * rope_dim;
        for (std::size_t j = 0; j < rope_dim; ++j) shared[j] += share[j];
        rope_.apply(ws.dq + (t * size(c_.n_heads) + size(head)) * size(head_dim()) + c_.qk_nope_head_dim, position,
                    true);
      }
      rope_.apply(shared, position, true);
    }
  });
}

template <class T>
HeadShape Attention<T>::head_shape() const {
  return {length_, c_.qk_nope_head_dim, c_.qk_rope_head_dim, c_.v_head_dim};
}

template <class T>
std::size_t Attention<T>::first_row(int sequence, int head) const {
  return size(sequence) * size(length_) * size(c_.n_heads) + size(head);
}

template <class T>
HeadInputs<T> Attention<T>::head_inputs(int sequence, int head, const AttentionActivations<T>& a) const {
  const int kv_dim = c_.qk_nope_head_dim + c_.v_head_dim, kva_width = c_.kv_lora_rank + c_.qk_rope_head_dim;
  const T* kv = a.kv + first_row(sequence, head) * size(kv_dim);
  const T* k_rope = a.kva + size(sequence) * size(length_) * size(kva_width) + c_.kv_lora_rank;
  return {{a.q + first_row(sequence, head) * size(head_dim()), c_.n_heads * head_dim()},
          {kv, c_.n_heads * kv_dim},
          {k_rope, kva_width},
          {kv + c_.qk_nope_head_dim, c_.n_heads * kv_dim}};
}

template <class T>
HeadOutputs<T> Attention<T>::head_outputs(int sequence, int head, AttentionActivations<T>& a) const {
  const std::size_t place = size(sequence) * size(c_.n_heads) + size(head);
  return {{a.o + first_row(sequence, head) * size(c_.v_head_dim), c_.n_heads * c_.v_head_dim},
          a.lse + place * size(length_),
          a.largest + place};
}

template <class T>
HeadGradients<T> Attention<T>::head_gradients(int sequence, int head, const AttentionActivations<T>& a,
                                              AttentionWorkspace<T>& ws) const {
  const int dv = c_.v_head_dim, kv_dim = c_.qk_nope_head_dim + dv;
  const std::size_t row = first_row(sequence, head), place = size(sequence) * size(c_.n_heads) + size(head);
  const std::size_t rope_row = size(head) * size(tokens()) + size(sequence) * size(length_);
  T* dkv = ws.dkv + row * size(kv_dim);
  return {{a.o + row * size(dv), c_.n_heads * dv},
          {ws.d_o + row * size(dv), c_.n_heads * dv},
          a.lse + place * size(length_),
          {ws.dq + row * size(head_dim()), c_.n_heads * head_dim()},
          {dkv, c_.n_heads * kv_dim},
          {ws.dk_rope + rope_row * size(c_.qk_rope_head_dim), c_.qk_rope_head_dim},
          {dkv + c_.qk_nope_head_dim, c_.n_heads * kv_dim}};
}

template struct AttentionActivations<float>;
template struct AttentionActivations<double>;
template struct AttentionWorkspace<float>;
template struct AttentionWorkspace<double>;
template class Attention<float>;
template class Attention<double>;

}  // namespace moescope
