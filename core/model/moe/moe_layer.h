// One mixture-of-experts layer: router -> dispatch -> experts -> combine, plus the shared experts.
//
// Latent experts work on rows of Dl < D values (Megatron-LM's moe_latent_size: Nemotron 3 Super, Kimi K3):
//   rows = h W_down^T -> dispatch -> experts -> combine = mixed;  y += (norm(mixed) or mixed) W_up^T
// The projections run once per token, not once per copy, and every rank has all their weights. The router and the
// shared experts read h itself. The shared experts may have a gate: y += sigmoid(h w_g) shared(h), one number per token
// (Qwen3-Next's shared_expert_gate, Megatron-LM's moe-shared-expert-gate).
//
// Legend: T tokens of this rank, D dim, R row_dim (D, or the width of latent experts), E experts, K top_k, N slots: T*K
// minus the dropped ones; F expert hidden width. If experts are spread over ranks, M is the number of rows that this
// rank's experts receive, at most the slots of the whole batch; in a single process M = N.
#pragma once

#include <span>

#include "core/model/layers/arena.h"
#include "core/model/layers/batch_part.h"
#include "core/model/layers/feed_forward.h"
#include "core/model/layers/parameters.h"
#include "core/model/layers/phase_clock.h"
#include "core/model/moe/dispatch.h"
#include "core/model/moe/expert_exchange.h"
#include "core/model/moe/experts.h"
#include "core/model/moe/router.h"

namespace moescope {

template <class T>
struct MoeActivations {
  RouterActivations<T> router;
  DispatchPlan plan;
  ExpertExchange exchange;       // used with several ranks only
  Matrix<T> sent;                // [T, R] tokens, rounded to the payload's format; unused for FP32
  Matrix<T> x;                   // [M, R] rows that arrive, grouped by expert; with several ranks only
  Matrix<T> h13, a;              // [M, 2F], [M, F], grouped by expert
  Matrix<T> y;                   // [N, R], grouped by expert
  Matrix<T> latent_rows, mixed;  // [T, Dl]; of latent experts
  Matrix<T> normed;              // [T, Dl]; of latent experts with a norm
  std::span<T> normed_inv;       // [T] see rms_norm_forward()
  FeedForwardActivations<T> shared;
  Matrix<T> shared_y;  // [T, D] output of the shared experts before their gate, if they have one
  Matrix<T> gate;      // [T, 1]

  void plan_memory(Arena<T>& arena, const RunConfig& config, const BatchPart& part);
};

// Gradients of one layer at a time; shared by all layers.
template <class T>
struct MoeWorkspace {
  Matrix<T> dy, dx;                             // [N, R]
  Matrix<T> rows_at_experts, drows_at_experts;  // [M, R] rows at this rank's experts; with several ranks only
  Matrix<T> dmix;                               // [T, K]
  Matrix<T> dlogits;                            // [T, E]
  Matrix<T> drows, dmixed, dnormed;             // [T, Dl]
  Matrix<T> norm_partial;                       // see NormGradient
  FeedForwardActivations<T> shared;
  Matrix<T> dshared_y;  // [T, D]
  Matrix<T> dgate;      // [T, 1] before the sigmoid

  void plan_memory(Arena<T>& arena, const RunConfig& config, const BatchPart& part);
};

// Weights and values of a layer in one step.
template <class T>
struct MoePass {
  const LayerView<T>& w;
  MoeActivations<T>& a;
  MoeWorkspace<T>& ws;
  LayerPrecision precision;
  PhaseClock& clock;
};

template <class T>
class MoeLayer {
 public:
  // `config` is read at every step, so that its live fields may change between two steps.
  MoeLayer(const RunConfig& config, const BatchPart& part);

  // y_TD = residual_TD + moe(h_TD), with expert_bias_E for the choice of experts.
  void forward(const MoePass<T>& pass, ConstMatrix<T> h, ConstMatrix<T> residual, std::span<const T> expert_bias,
               Matrix<T> y, const RoutingInputs& limits = {});
  // Computes dh_TD = dL/dh from dy_TD; the weights' gradients go to `g`.
  void backward(const MoePass<T>& pass, const LayerView<T>& g, ConstMatrix<T> h, ConstMatrix<T> dy, Matrix<T> dh);

 private:
  void latent_up(const MoePass<T>& pass, Matrix<T> y);
  void latent_up_backward(const MoePass<T>& pass, const LayerView<T>& g, ConstMatrix<T> dy);
  void shared_forward(const MoePass<T>& pass, ConstMatrix<T> h, Matrix<T> y);
  void shared_backward(const MoePass<T>& pass, const LayerView<T>& g, ConstMatrix<T> h, ConstMatrix<T> dy,
                       Matrix<T> dh);
  Matrix<const T> tokens_to_send(ConstMatrix<T> h, const MoeActivations<T>& a) const;
  // Returns the tokens, rounded to the format in which they are sent.
  Matrix<const T> sent_tokens(ConstMatrix<T> h, const MoeActivations<T>& a) const;
  void send_tokens(const MoePass<T>& pass, ConstMatrix<T> h);
  SlotRows<T> arrived_rows(ConstMatrix<T> h, const MoeActivations<T>& a) const;
  SlotRows<T> gradient_rows(const MoePass<T>& pass, ConstMatrix<T> dy);
  // Send the rows to their experts, compute the experts and return the results, over all ranks.
  void experts_forward(const MoePass<T>& pass, ConstMatrix<T> h);
  void experts_backward(const MoePass<T>& pass, const LayerView<T>& g, ConstMatrix<T> h, ConstMatrix<T> dy);

  const RunConfig& config_;
  const BatchPart& part_;
  GroupedExperts<T> experts_;
};

}  // namespace moescope
