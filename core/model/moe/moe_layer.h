// One mixture-of-experts layer: router -> dispatch -> experts -> combine, plus the shared experts.
//
// Legend: T tokens here, D dim, R row_dim (D, or the width of latent experts), E experts, K top_k, N slots: T*K, less
// those dropped; F expert hidden width. Where experts are spread over ranks, M is the number of rows that the experts
// here receive, at most the slots of the whole batch; on one process M = N.
#pragma once

#include <vector>

#include "core/model/layers/arena.h"
#include "core/model/layers/batch_part.h"
#include "core/model/layers/feed_forward.h"
#include "core/model/layers/parameters.h"
#include "core/model/layers/phase_clock.h"
#include "core/model/moe/dispatch.h"
#include "core/model/moe/expert_exchange.h"
#include "core/model/moe/experts.h"
#include "core/model/moe/latent_experts.h"
#include "core/model/moe/router.h"
#include "core/model/moe/shared_gate.h"

namespace moescope {

template <class T>
struct MoeActivations {
  RouterActivations<T> router;
  DispatchPlan plan;
  ExpertExchange exchange;  // between ranks
  T* sent;                  // [T, R] tokens, rounded to the payload's format; FP32: none
  T* x;                     // [M, R] rows that arrive, grouped by expert; between ranks only
  T *h13, *a;               // [M, 2F], [M, F], grouped by expert
  T* y;                     // [N, R], grouped by expert
  LatentActivations<T> latent;
  FeedForwardActivations<T> shared;
  SharedGateActivations<T> shared_gate;

  void plan_memory(Arena<T>& arena, const RunConfig& config, const BatchPart& part);
};

// Gradients of one layer at a time; shared by all layers.
template <class T>
struct MoeWorkspace {
  T *dy, *dx;                     // [N, R]
  T *row_experts, *drow_experts;  // [M, R] rows at the experts here; between ranks only
  T* dmix;                        // [T, K]
  T* dlogits;                     // [T, E]
  LatentWorkspace<T> latent;
  FeedForwardActivations<T> shared;
  SharedGateActivations<T> shared_gate;

  void plan_memory(Arena<T>& arena, const RunConfig& config, const BatchPart& part);
};

template <class T>
class MoeLayer {
 public:
  // `config` is read at every step, so its live fields may change between two steps.
  MoeLayer(const RunConfig& config, const BatchPart& part);

  // y_TD = residual_TD + moe(h_TD).
  void forward(const LayerView<T>& w, const T* expert_bias, const T* h, const T* residual, MoeActivations<T>& a,
               MoeWorkspace<T>& ws, T* y, const LayerPrecision& precision, PhaseClock& clock,
               const RoutingLimits& limits = {});
  // dh_TD = dL/dh from dy_TD.
  void backward(const LayerView<T>& w, const LayerView<T>& g, const T* h, const T* dy, const MoeActivations<T>& a,
                MoeWorkspace<T>& ws, T* dh, const LayerPrecision& precision, PhaseClock& clock);

 private:
  void shared_forward(const LayerView<T>& w, const T* h, MoeActivations<T>& a, T* y, const LayerPrecision& precision);
  void shared_backward(const LayerView<T>& w, const LayerView<T>& g, const T* h, const T* dy,
                       const MoeActivations<T>& a, MoeWorkspace<T>& ws, T* dh, const LayerPrecision& precision);
  const T* tokens_to_send(const T* h, const MoeActivations<T>& a) const;
  const T* sent_tokens(const T* h, const MoeActivations<T>& a) const;  // the same, rounded as they are sent
  void send_tokens(const T* h, MoeActivations<T>& a, MoeWorkspace<T>& ws, const LayerPrecision& precision);
  SlotRows<T> arrived_rows(const T* h, const MoeActivations<T>& a) const;
  SlotRows<T> gradient_rows(const T* dy, const MoeActivations<T>& a, MoeWorkspace<T>& ws,
                            const LayerPrecision& precision);
  // Sends the rows, grouped by expert, through the experts, whichever rank they are on.
  void experts_forward(const LayerView<T>& w, const T* h, MoeActivations<T>& a, MoeWorkspace<T>& ws,
                       const LayerPrecision& precision, PhaseClock& clock);
  void experts_backward(const LayerView<T>& w, const LayerView<T>& g, const T* h, const T* dy,
                        const MoeActivations<T>& a, MoeWorkspace<T>& ws, const LayerPrecision& precision,
                        PhaseClock& clock);

  const RunConfig& config_;
  const BatchPart& part_;
  GroupedExperts<T> experts_;
};

extern template class MoeLayer<float>;
extern template class MoeLayer<double>;

}  // namespace moescope
