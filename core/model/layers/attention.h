// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1), causal, with backward.
//
//   q          = wq h, or wq_b rms(wq_a h);  per head [nope | rope]
//   [c | k_r]  = wkv_a h;                    k_r is one rotated key shared by all heads
//   [k_n | v]  = wkv_b rms(c)                per head
//   o          = softmax(q.k / sqrt(nope + rope)) v;  y = wo o
// Legend: T = B*S tokens (B sequences of S), D dim, H heads, dn/dr/dv nope, rope and value head dims, dq = dn + dr, R
// kv_lora_rank, Q q_lora_rank. If no operand of attention's GEMMs is in FP32, the products between activations are in
// BF16, as in a training in BF16 whose linear layers are quantized: q, k, v, p and the gradients of o and of the scores
// are rounded before they are multiplied; sums and the softmax stay in FP32. Scores are recomputed in the backward
// pass, so that memory grows with T, not with T*S.
#pragma once

#include <cstdint>

#include "core/config/run_config.h"
#include "core/model/layers/arena.h"
#include "core/model/layers/attention_head.h"
#include "core/model/layers/parameters.h"
#include "core/model/layers/precision.h"
#include "core/model/layers/rope.h"

namespace moescope {

// Values of one layer that the forward pass keeps for the backward pass.
template <class T>
struct AttentionActivations {
  Matrix<T> h;                     // [T, D] normed input
  Matrix<T> qa, qa_normed;         // [T, Q]; low-rank query only
  Matrix<T> q;                     // [T, H dq], rotated
  Matrix<T> kva;                   // [T, R + dr], k_r rotated
  Matrix<T> latent;                // [T, R] normed
  Matrix<T> kv;                    // [T, H (dn + dv)]
  Matrix<T> lse;                   // [B H, S] log-sum-exp of each query's scores
  Matrix<T> o;                     // [T, H dv]
  T *h_inv, *qa_inv, *latent_inv;  // [T]
  T* largest;                      // [B, H] largest score before the softmax, 1 / sqrt(dq) included

  void plan(Arena<T>& arena, const ModelConfig& config, Index sequences, Index length);
};

// Gradients for one layer's backward pass; shared by all layers.
template <class T>
struct AttentionWorkspace {
  Matrix<T> dq, dkv, d_o;     // shaped like q, kv, o
  Matrix<T> dkva;             // [T, R + dr]
  Matrix<T> dlatent;          // [T, R]
  Matrix<T> dqa, dqa_normed;  // [T, Q]
  Matrix<T> dk_rope;          // [H T, dr] one part per head
  Matrix<T> dh;               // [T, D]
  T* norm_partial;

  void plan(Arena<T>& arena, const ModelConfig& config, Index tokens);
};

template <class T>
class Attention {
 public:
  Attention(const ModelConfig& config, int sequences, int length)
      : c_(config),
        sequences_(sequences),
        length_(length),
        rope_(Rope<T>::plain(length, config.qk_rope_head_dim, config.rope_theta)) {}

  // y = x + attention(rms(x)).
  void forward(const LayerView<T>& w, ConstMatrix<T> x, AttentionActivations<T>& a, Matrix<T> y,
               const LayerPrecision& precision = {}) const;

  // `dx` holds dL/dy and receives dL/dx; weight gradients go to `g`.
  void backward(const LayerView<T>& w, const LayerView<T>& g, ConstMatrix<T> x, const AttentionActivations<T>& a,
                AttentionWorkspace<T>& ws, Matrix<T> dx, const LayerPrecision& precision = {}) const;

 private:
  int tokens() const { return sequences_ * length_; }
  int head_dim() const { return c_.qk_nope_head_dim + c_.qk_rope_head_dim; }
  void rotate(AttentionActivations<T>& a) const;
  void rotate_back(AttentionWorkspace<T>& ws) const;
  HeadShape head_shape() const;
  template <class N>
  Matrix<N> of_head(const Matrix<N>& all, int sequence, Index first_col, Index cols) const;
  HeadInputs<T> head_inputs(int sequence, int head, const AttentionActivations<T>& a) const;
  HeadOutputs<T> head_outputs(int sequence, int head, AttentionActivations<T>& a) const;
  HeadGradients<T> head_gradients(int sequence, int head, const AttentionActivations<T>& a,
                                  AttentionWorkspace<T>& ws) const;

  const ModelConfig& c_;
  int sequences_, length_;
  Rope<T> rope_;
};

extern template class Attention<float>;
extern template class Attention<double>;

}  // namespace moescope
