#include "core/model/layers/attention.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include "core/model/layers/linear.h"
#include "core/model/layers/rms_norm.h"
#include "core/numerics/gemm.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/parallel.h"
#include "core/numerics/row_math.h"
#include "core/numerics/size.h"

namespace moescope {
namespace {

// Queries handled at a time: keys after a block's last query are never touched.
constexpr int kQueryBlock = 64;
// Rows of the score matrix are padded to whole lanes of either scalar type.
constexpr int kPad = 16;
constexpr std::size_t kAttentionTokens = 64;

int padded(int n) {
  return (n + kPad - 1) / kPad * kPad;
}

// Elements of T that hold these counts of Number, each padded.
template <class T, class Number>
std::size_t room(std::initializer_list<int> counts) {
  std::size_t numbers = 0;
  for (const int count : counts) numbers += size(padded(count));
  return (numbers * sizeof(Number) + sizeof(T) - 1) / sizeof(T);
}

enum class Arithmetic { full, rounded, units };  // FP32; BF16 numbers by sgemm or by matrix units

template <class T>
Arithmetic arithmetic_of(const LayerPrecision& precision) {
  if (!precision.step) return Arithmetic::full;
  const auto& formats = precision.step->of(GemmClass::attention).formats;
  const bool bf16 = std::ranges::all_of(formats, [](const auto& f) { return f.scheme == QuantScheme::bf16; });
  if (!bf16) return Arithmetic::full;
  return std::is_same_v<T, float> && has_matrix_unit() ? Arithmetic::units : Arithmetic::rounded;
}

template <class T, class Number>
void take(const T* in, std::size_t n, bool rounds, Number* out) {
  if constexpr (std::is_same_v<T, Number>)
    if (!rounds) return void(std::copy_n(in, n, out));
  round_for_units(in, n, out);
}

// The matrix as it is multiplied, without gaps between rows.
template <class T, class Number>
void take_rows(const T* in, int rows, int cols, int stride, bool rounds, Number* out) {
  for (int r = 0; r < rows; ++r) take(in + size(r) * size(stride), size(cols), rounds, out + size(r) * size(cols));
}

// `visible` columns of a block of scores, whose rows stay as far apart: the block itself where nothing is rounded.
template <class T, class Number>
const Number* take_scores(T* scores, int rows, int visible, int stride, bool rounds, Number* out) {
  if constexpr (std::is_same_v<T, Number>) {
    if (!rounds) return scores;
  }
  for (int r = 0; r < rows; ++r)
    take(scores + size(r) * size(stride), size(visible), rounds, out + size(r) * size(stride));
  return out;
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
void score_gradient_block(T* scores, T* dp, int stride, int first, int rows, int width, T scale, const T* lse,
                          const T* o, const T* d_o, std::size_t o_stride, int value_dim) {
  for (int r = 0; r < rows; ++r) {
    T *s = scores + size(r) * size(stride), *ds = dp + size(r) * size(stride);
    const int count = first + r + 1;
    std::fill(s + count, s + width, -std::numeric_limits<T>::infinity());
    std::fill(ds + count, ds + width, T{0});
    const T delta = dot(o + size(r) * o_stride, d_o + size(r) * o_stride, size(value_dim));
    softmax_backward_row(s, ds, size(width), scale, lse[r], delta);
  }
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
      if (arithmetic == Arithmetic::units) return head_forward<Bf16>(sequence, head, true, a);
    head_forward<T>(sequence, head, arithmetic != Arithmetic::full, a);
  });
  std::copy_n(x, size(n) * size(dim), y);
  linear_forward(a.o, n, c_.n_heads * c_.v_head_dim, w.wo, dim, y, true, precision.of(Gemm::wo));
}

template <class T>
void Attention<T>::backward(const LayerView<T>& w, const LayerView<T>& g, const T* x, const AttentionActivations<T>& a,
                            AttentionWorkspace<T>& ws, T* dx, const LayerPrecision& precision) const {
  const int n = tokens(), dim = c_.dim, q_width = c_.n_heads * head_dim(), latent = c_.kv_lora_rank;
  const int kva_width = latent + c_.qk_rope_head_dim, o_width = c_.n_heads * c_.v_head_dim;
  const int kv_width = c_.n_heads * (c_.qk_nope_head_dim + c_.v_head_dim);
  linear_backward_weight(dx, a.o, n, dim, o_width, g.wo, precision.of(Gemm::wo));
  linear_backward_input(dx, n, dim, w.wo, o_width, ws.d_o, false, precision.of(Gemm::wo));
  const Arithmetic arithmetic = arithmetic_of<T>(precision);
  parallel_for(sequences_ * c_.n_heads, [&](int task) {
    const int sequence = task / c_.n_heads, head = task % c_.n_heads;
    if constexpr (std::is_same_v<T, float>)
      if (arithmetic == Arithmetic::units) return head_backward<Bf16>(sequence, head, true, a, ws);
    head_backward<T>(sequence, head, arithmetic != Arithmetic::full, a, ws);
  });
  rotate_back(ws);

  linear_backward_weight(ws.dkv, a.latent, n, kv_width, latent, g.wkv_b, precision.of(Gemm::wkv_b));
  linear_backward_input(ws.dkv, n, kv_width, w.wkv_b, latent, ws.dlatent, false, precision.of(Gemm::wkv_b));
  rms_norm_backward(ws.dlatent, a.kva, size(kva_width), a.latent_inv, n, latent, w.kv_norm, ws.dkva, size(kva_width),
                    false, g.kv_norm, ws.norm_partial, precision.shard_rows);
  linear_backward_weight(ws.dkva, a.h, n, kva_width, dim, g.wkv_a, precision.of(Gemm::wkv_a));
  linear_backward_input(ws.dkva, n, kva_width, w.wkv_a, dim, ws.dh, false, precision.of(Gemm::wkv_a));
  if (c_.q_lora_rank > 0) {
    linear_backward_weight(ws.dq, a.qa_normed, n, q_width, c_.q_lora_rank, g.wq_b, precision.of(Gemm::wq_b));
    linear_backward_input(ws.dq, n, q_width, w.wq_b, c_.q_lora_rank, ws.dqa_normed, false, precision.of(Gemm::wq_b));
    rms_norm_backward(ws.dqa_normed, a.qa, size(c_.q_lora_rank), a.qa_inv, n, c_.q_lora_rank, w.q_norm, ws.dqa,
                      size(c_.q_lora_rank), false, g.q_norm, ws.norm_partial, precision.shard_rows);
    linear_backward_weight(ws.dqa, a.h, n, c_.q_lora_rank, dim, g.wq_a, precision.of(Gemm::wq_a));
    linear_backward_input(ws.dqa, n, c_.q_lora_rank, w.wq_a, dim, ws.dh, true, precision.of(Gemm::wq_a));
  } else {
    linear_backward_weight(ws.dq, a.h, n, q_width, dim, g.wq, precision.of(Gemm::wq));
    linear_backward_input(ws.dq, n, q_width, w.wq, dim, ws.dh, true, precision.of(Gemm::wq));
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

// keys_Sq of one head: its own part and the shared rotated part side by side.
template <class T>
template <class Number>
void Attention<T>::gather_keys(int sequence, int head, bool rounds, const AttentionActivations<T>& a,
                               Number* keys) const {
  const std::size_t nope = size(c_.qk_nope_head_dim), rope_dim = size(c_.qk_rope_head_dim);
  const std::size_t kv_head = nope + size(c_.v_head_dim), kva_width = size(c_.kv_lora_rank) + rope_dim;
  for (int s = 0; s < length_; ++s) {
    const std::size_t t = size(sequence) * size(length_) + size(s);
    Number* key = keys + size(s) * (nope + rope_dim);
    take(a.kv + (t * size(c_.n_heads) + size(head)) * kv_head, nope, rounds, key);
    take(a.kva + t * kva_width + c_.kv_lora_rank, rope_dim, rounds, key + nope);
  }
}

template <class T>
void Attention<T>::scatter_keys(int sequence, int head, const T* dkeys, AttentionWorkspace<T>& ws) const {
  const std::size_t nope = size(c_.qk_nope_head_dim), rope_dim = size(c_.qk_rope_head_dim);
  const std::size_t kv_head = nope + size(c_.v_head_dim);
  for (int s = 0; s < length_; ++s) {
    const std::size_t t = size(sequence) * size(length_) + size(s);
    const T* dkey = dkeys + size(s) * (nope + rope_dim);
    std::copy_n(dkey, nope, ws.dkv + (t * size(c_.n_heads) + size(head)) * kv_head);
    std::copy_n(dkey + nope, rope_dim, ws.dk_rope + (size(head) * size(tokens()) + t) * rope_dim);
  }
}

template <class T>
template <class Number>
void Attention<T>::head_forward(int sequence, int head, bool rounds, AttentionActivations<T>& a) const {
  const int dq = head_dim(), dv = c_.v_head_dim, kv_head = c_.qk_nope_head_dim + dv, stride = padded(length_);
  const int q_stride = c_.n_heads * dq, kv_stride = c_.n_heads * kv_head, o_stride = c_.n_heads * dv;
  const std::size_t first_token = size(sequence) * size(length_);
  const std::size_t scores_size = size(kQueryBlock) * size(stride);
  T* scores = thread_scratch<T>(scores_size + room<T, Number>({length_ * dq, length_ * dv, kQueryBlock * dq}) +
                                room<T, Number>({kQueryBlock * stride}));
  auto* keys = reinterpret_cast<Number*>(scores + scores_size);
  Number *values = keys + padded(length_ * dq), *q = values + padded(length_ * dv),
         *rounded = q + padded(kQueryBlock * dq);
  gather_keys(sequence, head, rounds, a, keys);
  take_rows(a.kv + first_token * size(kv_stride) + size(head * kv_head + c_.qk_nope_head_dim), length_, dv, kv_stride,
            rounds, values);
  const T scale = T{1} / std::sqrt(static_cast<T>(dq));
  T& largest = a.largest[size(sequence) * size(c_.n_heads) + size(head)];
  largest = -std::numeric_limits<T>::infinity();
  for (int first = 0; first < length_; first += kQueryBlock) {
    const int rows = std::min(kQueryBlock, length_ - first), visible = first + rows;
    T* o = a.o + (first_token + size(first)) * size(o_stride) + size(head * dv);
    T* lse = a.lse + (size(sequence) * size(c_.n_heads) + size(head)) * size(length_) + size(first);
    take_rows(a.q + (first_token + size(first)) * size(q_stride) + size(head * dq), rows, dq, q_stride, rounds, q);
    gemm(Trans::no, Trans::yes, rows, visible, dq, T{1}, q, dq, keys, dq, T{0}, scores, stride);
    softmax_block(scores, stride, first, rows, padded(visible), scale, lse, largest);
    const Number* p = take_scores(scores, rows, visible, stride, rounds, rounded);
    gemm(Trans::no, Trans::no, rows, dv, visible, T{1}, p, stride, values, dv, T{0}, o, o_stride);
  }
}

template <class T>
template <class Number>
void Attention<T>::head_backward(int sequence, int head, bool rounds, const AttentionActivations<T>& a,
                                 AttentionWorkspace<T>& ws) const {
  const int dq = head_dim(), dv = c_.v_head_dim, kv_head = c_.qk_nope_head_dim + dv, stride = padded(length_);
  const int q_stride = c_.n_heads * dq, kv_stride = c_.n_heads * kv_head, o_stride = c_.n_heads * dv;
  const std::size_t first_token = size(sequence) * size(length_);
  const std::size_t keys_size = size(padded(length_ * dq)), scores_size = size(kQueryBlock) * size(stride);
  T* dkeys = thread_scratch<T>(keys_size + 2 * scores_size +
                               room<T, Number>({length_ * dq, length_ * dv, kQueryBlock * dq, kQueryBlock * dv}) +
                               room<T, Number>({kQueryBlock * stride, kQueryBlock * stride}));
  T *s = dkeys + keys_size, *dp = s + scores_size;
  auto* keys = reinterpret_cast<Number*>(dp + scores_size);
  Number *values = keys + padded(length_ * dq), *q = values + padded(length_ * dv), *d_o = q + padded(kQueryBlock * dq),
         *rounded_p = d_o + padded(kQueryBlock * dv), *rounded_ds = rounded_p + padded(kQueryBlock * stride);
  gather_keys(sequence, head, rounds, a, keys);
  const std::size_t value_offset = first_token * size(kv_stride) + size(head * kv_head + c_.qk_nope_head_dim);
  take_rows(a.kv + value_offset, length_, dv, kv_stride, rounds, values);
  const T scale = T{1} / std::sqrt(static_cast<T>(dq));
  // The last block sees every key, so it writes dK and dV and the others add to them.
  const int last_block = (length_ - 1) / kQueryBlock * kQueryBlock;
  for (int first = last_block; first >= 0; first -= kQueryBlock) {
    const int rows = std::min(kQueryBlock, length_ - first), visible = first + rows;
    const T add = first == last_block ? T{0} : T{1};
    const std::size_t q_offset = (first_token + size(first)) * size(q_stride) + size(head * dq);
    const std::size_t o_offset = (first_token + size(first)) * size(o_stride) + size(head * dv);
    const T* lse = a.lse + (size(sequence) * size(c_.n_heads) + size(head)) * size(length_) + size(first);
    take_rows(a.q + q_offset, rows, dq, q_stride, rounds, q);
    take_rows(ws.d_o + o_offset, rows, dv, o_stride, rounds, d_o);
    gemm(Trans::no, Trans::yes, rows, visible, dq, T{1}, q, dq, keys, dq, T{0}, s, stride);
    gemm(Trans::no, Trans::yes, rows, visible, dv, T{1}, d_o, dv, values, dv, T{0}, dp, stride);
    score_gradient_block(s, dp, stride, first, rows, padded(visible), scale, lse, a.o + o_offset, ws.d_o + o_offset,
                         size(o_stride), dv);
    const Number* p = take_scores(s, rows, visible, stride, rounds, rounded_p);
    const Number* ds = take_scores(dp, rows, visible, stride, rounds, rounded_ds);
    gemm(Trans::yes, Trans::no, visible, dv, rows, T{1}, p, stride, d_o, dv, add, ws.dkv + value_offset, kv_stride);
    gemm(Trans::no, Trans::no, rows, dq, visible, T{1}, ds, stride, keys, dq, T{0}, ws.dq + q_offset, q_stride);
    gemm(Trans::yes, Trans::no, visible, dq, rows, T{1}, ds, stride, q, dq, add, dkeys, dq);
  }
  scatter_keys(sequence, head, dkeys, ws);
}

template struct AttentionActivations<float>;
template struct AttentionActivations<double>;
template struct AttentionWorkspace<float>;
template struct AttentionWorkspace<double>;
template class Attention<float>;
template class Attention<double>;

}  // namespace moescope
