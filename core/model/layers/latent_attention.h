// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1), causal, forward.
//
//   q          = wq h, or wq_b rms(wq_a h);  per head [nope | rope]
//   [c | k_r]  = wkv_a h;                    k_r is one rotated key shared by all heads
//   [k_n | v]  = wkv_b rms(c)                per head
//   o          = softmax(scale q.k) v;       y += wo o
// Legend: T tokens, H heads, dn/dr/dv nope, rope and value head dims, dq = dn + dr, R kv_rank, Q q_rank.
#pragma once

#include "core/model/layers/arena.h"
#include "core/model/layers/attention_kind.h"

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
  const T *q_norm, *kv_norm;  // gains [Q], [R]
};

// Values of one layer that the backward pass needs.
template <class T>
struct AttentionActivations {
  Matrix<T> qa, qa_normed;  // [T, Q]; low-rank query only
  Matrix<T> q;              // [T, H dq], rotated
  Matrix<T> kva;            // [T, R + dr], k_r rotated
  Matrix<T> latent;         // [T, R] normed
  Matrix<T> kv;             // [T, H (dn + dv)]
  Matrix<T> o;              // [T, H dv]
  T *qa_inv, *latent_inv;   // [T]
  T *lse, *largest;         // see AttendedRows

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

}  // namespace moescope
