// One mixture-of-experts layer: router -> dispatch -> experts -> combine, plus the shared experts.
//
// Legend: T tokens, D dim, E experts, K top_k, N = T*K slots, F expert hidden width.
#pragma once

#include <vector>

#include "core/model/arena.h"
#include "core/model/dispatch.h"
#include "core/model/experts.h"
#include "core/model/feed_forward.h"
#include "core/model/parameters.h"
#include "core/model/phase_clock.h"
#include "core/model/router.h"

namespace moescope {

template <class T>
struct MoeActivations {
  RouterActivations<T> router;
  DispatchPlan plan;
  T *x, *h13, *a, *y;  // [N, D], [N, 2F], [N, F], [N, D], grouped by expert
  FeedForwardActivations<T> shared;

  void plan_memory(Arena<T>& arena, const RunConfig& config, int sequences, int length);
};

// Gradients of one layer at a time; shared by all layers.
template <class T>
struct MoeWorkspace {
  T *dy, *dx, *dh13;  // as y, x, h13
  T* dmix;            // [T, K]
  T* dlogits;         // [T, E]
  FeedForwardActivations<T> shared;

  void plan_memory(Arena<T>& arena, const RunConfig& config, std::size_t tokens);
};

template <class T>
class MoeLayer {
 public:
  // `config` is read at every step, so its live fields may change between two steps.
  MoeLayer(const RunConfig& config, int sequences, int length);

  // y_TD = residual_TD + moe(h_TD). `sums`, if given, receives the experts' forward quantization statistics.
  void forward(const LayerView<T>& w, const T* expert_bias, const T* h, const T* residual, MoeActivations<T>& a, T* y,
               const LayerPrecision& precision, QuantSiteSums* sums, PhaseClock& clock);
  // dh_TD = dL/dh from dy_TD.
  void backward(const LayerView<T>& w, const LayerView<T>& g, const T* h, const T* dy, const MoeActivations<T>& a,
                MoeWorkspace<T>& ws, T* dh, const LayerPrecision& precision, QuantSiteSums* sums, PhaseClock& clock);

 private:
  const RunConfig& config_;
  int sequences_, length_;
  GroupedExperts<T> experts_;
};

extern template class MoeLayer<float>;
extern template class MoeLayer<double>;

}  // namespace moescope
