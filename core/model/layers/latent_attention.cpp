#include "core/model/layers/latent_attention.h"

#include "core/model/layers/rms_norm.h"
#include "core/numerics/bf16_rounding.h"

namespace moescope {

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
  arena.plan(lse, tokens * heads);
  arena.plan(largest, sequences * heads);
  arena.plan(o, tokens, heads * s.value);
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
    arena.commit(half_memory<T>().sized(arena.size()));
  }
  AttentionActivations<T>& a = activations_ ? *activations_ : local_activations;
  project(pass, h, a);
  this->attend(pass, a.projected(latent_), {a.o, a.lse, a.largest}, y);
}

template <class T>
void LatentAttention<T>::project(const AttentionPass<T>& pass, ConstMatrix<T> h, AttentionActivations<T>& a) const {
  const Index rank = latent_.kv_rank, nope = latent_.nope, width = nope + latent_.rope;
  const auto norm = [&](ConstMatrix<T> x, const T* gain, const Matrix<T>& to, T* inv) {
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
    pass.rope.apply(a.kva.row(t) + rank, position, latent_.interleaved);
    for (Index head = 0; head < this->shape().heads; ++head)
      pass.rope.apply(a.q.row(t) + head * width + nope, position, latent_.interleaved);
  });
}

template struct AttentionActivations<float>;
template struct AttentionActivations<double>;
template class LatentAttention<float>;
template class LatentAttention<double>;

}  // namespace moescope
