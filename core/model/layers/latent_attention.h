// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1), causal, forward.
//
//   q          = wq h, or wq_b rms(wq_a h);  per head [nope | rope]
//   [c | k_r]  = wkv_a h;                    k_r is one rotated key shared by all heads
//   [k_n | v]  = wkv_b rms(c)                per head
//   o          = softmax(scale q.k) v;       y += wo o
// Legend: T tokens, H heads, dn/dr/dv nope, rope and value head dims, dq = dn + dr, R kv_rank, Q q_rank.
#pragma once

#include <span>
#include <vector>

#include "core/config/run_config.h"
#include "core/model/layers/arena.h"
#include "core/model/layers/attention_kind.h"
#include "core/model/layers/parameters.h"
#include "core/model/layers/precision.h"

namespace moescope {

struct LatentShape {
  int q_rank = 0;  // 0 for plain queries
  int kv_rank = 0, nope = 0, rope = 0, value = 0;
  bool interleaved = true;  // the dimensions of a rotated pair are neighbours; otherwise rope / 2 apart
  double norm_eps = 1e-6;   // of q_norm and kv_norm
};

template <class T>
struct LatentLayers {
  const LinearLayer<T>*q, *q_a, *q_b;  // q for plain queries, the others for low-rank ones
  const LinearLayer<T>*kv_a, *kv_b, *output;
  std::span<const T> q_norm, kv_norm;  // gains [Q], [R]
};

// Values of one layer that the backward pass needs.
template <class T>
struct AttentionActivations {
  Matrix<T> qa, qa_normed;          // [T, Q]; low-rank query only
  Matrix<T> q;                      // [T, H dq], rotated
  Matrix<T> kva;                    // [T, R + dr], k_r rotated
  Matrix<T> latent;                 // [T, R] normed
  Matrix<T> kv;                     // [T, H (dn + dv)]
  std::span<T> qa_inv, latent_inv;  // [T] see rms_norm_forward()
  AttendedRows<T> attended;

  void plan(Arena<T>& arena, const LatentShape& shape, Index heads, Index tokens, Index sequences);
  ProjectedRows<T> projected(const LatentShape& shape) const;
};

template <class T>
class LatentAttention final : public AttentionKind<T> {
 public:
  // The layers and gains to which `layers` refers must outlive the object. forward() leaves its activations in
  // `activations`, which must be planned for the tokens of the pass; nullptr: they are not kept.
  LatentAttention(const AttentionShape& shape, const LatentShape& latent, const LatentLayers<T>& layers,
                  AttentionActivations<T>* activations = nullptr)
      : AttentionKind<T>(shape, layers.output), latent_(latent), layers_(layers), activations_(activations) {}
  void forward(const AttentionPass<T>& pass, ConstMatrix<T> h, Matrix<T> y) const override;

 private:
  void project(const AttentionPass<T>& pass, ConstMatrix<T> h, AttentionActivations<T>& a) const;
  LatentShape latent_;
  LatentLayers<T> layers_;
  AttentionActivations<T>* activations_;
};

// Latent attention of the model in training: the forward pass with the master weights (latent_attention.h), and the
// backward pass.
//
// Legend: T = B*S tokens (B sequences of S), D dim; see latent_attention.h. If no operand of attention's GEMMs is in
// FP32, the products between activations are in BF16, as in a training in BF16 whose linear layers are quantized: q, k,
// v, p and the gradients of o and of the scores are rounded before they are multiplied; sums and the softmax stay in
// FP32. Scores are recomputed in the backward pass, so that memory grows with T, not with T*S.
// Gradients for one layer's backward pass; shared by all layers.
template <class T>
struct AttentionWorkspace {
  Matrix<T> dq, dkv, d_o;     // shaped like q, kv, o
  Matrix<T> dkva;             // [T, R + dr]
  Matrix<T> dlatent;          // [T, R]
  Matrix<T> dqa, dqa_normed;  // [T, Q]
  Matrix<T> dk_rope;          // [H T, dr] one part per head
  Matrix<T> norm_partial;     // [rms_norm_partials(T), max(Q, R)] see NormGradient

  void plan(Arena<T>& arena, const ModelConfig& config, Index tokens);
};

template <class T>
struct AttentionGradients {
  const LayerView<T>& weights;
  AttentionWorkspace<T>& workspace;  // overwritten
  Matrix<T> dh;                      // [T, D]
};

template <class T>
class Attention {
 public:
  Attention(const ModelConfig& config, int sequences, int length);

  void plan(Arena<T>& arena, AttentionActivations<T>& a) const;
  // y_TD += attention(h_TD).
  void forward(const LayerView<T>& w, ConstMatrix<T> h, AttentionActivations<T>& a, Matrix<T> y,
               const LayerPrecision& precision = {}) const;
  // Computes dL/dh and the weights' gradients from dy_TD.
  void backward(const LayerView<T>& w, ConstMatrix<T> h, ConstMatrix<T> dy, const AttentionActivations<T>& a,
                const AttentionGradients<T>& gradients, const LayerPrecision& precision = {}) const;

 private:
  Index tokens() const { return std::ssize(positions_); }
  void rotate_back(AttentionWorkspace<T>& ws) const;
  void heads_backward(const AttentionActivations<T>& a, AttentionWorkspace<T>& ws, HeadArithmetic arithmetic) const;
  HeadGradients<T> head_gradients(Index sequence, Index head, const AttentionActivations<T>& a,
                                  AttentionWorkspace<T>& ws) const;

  LatentShape latent_;
  AttentionShape shape_;
  Index length_;
  std::vector<Index> begins_, positions_;  // see AttentionPass
  Rope<T> rope_;
};

}  // namespace moescope
