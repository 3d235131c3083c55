// The router of one MoE layer: scores, the choice of experts, mixing weights, auxiliary losses, expert_bias.
//
// Legend: T = B*S tokens of this rank (B sequences of S), D dim, E experts, K top_k, G groups. As in TorchTitan
// (models/moe): s = sigmoid, softmax or (DeepSeek-V4) sqrt(softplus) of gate(h); experts are chosen by s + expert_bias,
// tokens are mixed by s alone. With router.balance_rule = quantile_microbatch they are chosen by gate(h) + expert_bias,
// with quantile_sequence by s - strength * moving quantile + expert_bias.
// With groups, the score of a group is the sum of its two best choice scores, and only experts of the best groups can
// be chosen. With router.token_drop an expert takes no more tokens than its capacity, and the auxiliary loss counts
// only the tokens that it takes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/config/run_config.h"
#include "core/model/layers/arena.h"
#include "core/model/layers/batch_part.h"
#include "core/model/layers/precision.h"

namespace moescope {

// The router's values of one layer, kept from the forward pass to the end of the step.
template <class T>
struct RouterActivations {
  T *logits, *scores;              // [T, E]
  T* lse;                          // [T] log-sum-exp of the logits; only with softmax or z-loss
  T* mix;                          // [T, K] mixing weights, in the order of `ids`
  T* margin;                       // [T] K-th minus (K+1)-th choice score; NaN if there is no (K+1)-th
  T* cutoff;                       // [T] the (K+1)-th choice score; NaN if there is none
  T* load;                         // [B, E] f of the auxiliary loss; in batch mode a row for each microbatch
  std::vector<T> levelled_scores;  // [T, E] scores less moving quantiles (moving_quantile.h); empty with other rules
  // [T, K] chosen experts, ascending (round-robin order with forced balance, the table's order in layers routed by a
  // table).
  std::vector<std::int32_t> ids;
  // [T, K] `ids` with -1 for dropped copies; empty if no copy can be dropped.
  std::vector<std::int32_t> not_dropped;
  std::vector<std::uint32_t> tokens_per_expert;  // [E] slots in the whole batch, dropped copies included
  std::vector<std::uint32_t> rows_per_expert;    // [E] slots in the whole batch without dropped copies
  double aux_loss = 0, z_loss = 0;               // of the whole batch, with their coefficients
  // Kept from the forward pass for the backward pass.
  const std::uint8_t* padding = nullptr;  // RoutingInputs::padding
  std::size_t counted = 0;                // tokens of the whole batch without padding
  std::size_t load_tokens = 0;            // tokens of this rank, with padding, that share a row of `load`
  std::vector<T> load_weight;             // factor of the auxiliary loss's gradient, for each row of `load`

  void plan(Arena<T>& arena, const BatchPart& part, int n_experts, int top_k);
  // Returns the experts [T, K] that receive the copies; -1 for a dropped copy.
  const std::vector<std::int32_t>& sent() const { return not_dropped.empty() ? ids : not_dropped; }
  // Returns the values [T, E] to which expert_bias is added for the choice of experts, without gate_noise.
  const T* judged(const RouterConfig& config) const;
};

// Other inputs of a layer's router.
struct RoutingInputs {
  const std::uint8_t* killed = nullptr;     // [E] 1: cannot be chosen; nullptr: all can. At least top_k remain.
  std::uint64_t noise_seed = 0;             // seed of router.gate_noise, another one for each layer and step
  const std::int32_t* given_ids = nullptr;  // [T, K] experts of this rank's tokens, in place of the router's choice
  const std::int32_t* replayed =
      nullptr;  // [T, K] another run's experts, used like `given_ids`; margins are the router's
  const std::uint8_t* padding = nullptr;  // [T] 1: the token is routed, but not counted; nullptr: all are counted
  int microbatches = 1;                   // microbatches of the batch; 1 with several ranks
};

// Returns the experts that can be chosen, ascending; see RoutingInputs::killed.
std::vector<std::int32_t> living_experts(std::size_t n_experts, const std::uint8_t* killed);

template <class T>
struct RouterInputs {
  Matrix<const T> gate;  // [E, D]
  Matrix<const T> h;     // [T, D]
  const T* expert_bias;  // [E]; only router_forward() reads it
};
// Computes all values in `a`.
template <class T>
void router_forward(const RouterConfig& config, const BatchPart& part, const RouterInputs<T>& in,
                    RouterActivations<T>& a, const LinearPrecision& precision = {}, const RoutingInputs& limits = {});

template <class T>
struct RouterGradients {
  const T* dmix;      // [T, K] input; the other gradients are computed from it
  Matrix<T> dlogits;  // [T, E]
  Matrix<T> dgate;    // [E, D]
  Matrix<T> dh;       // [T, D] gradient through the scores
  bool adds_dh;       // true: dh is added to; false: it is overwritten
};
template <class T>
void router_backward(const RouterConfig& config, const BatchPart& part, const RouterInputs<T>& in,
                     const RouterActivations<T>& a, const RouterGradients<T>& gradients,
                     const LinearPrecision& precision = {});

// Chooses the top_k largest of the E values in `choice`; of equal values, the one with the lowest index. `ids` are
// ascending. Returns the margin. The score of a group with one living expert is the value of this expert; a group
// without living experts is never chosen. `cutoff`, unless nullptr, receives the (K+1)-th value.
template <class T>
T choose_experts(const RouterConfig& config, std::span<const T> choice, std::int32_t* ids,
                 const std::uint8_t* killed = nullptr, T* cutoff = nullptr);

// Computes mix_K of the given experts ids_K from a token's scores_E: s, or s / (sum over the K + 1e-20), times
// route_scale.
template <class T>
void mixing_weights(const RouterConfig& config, const T* scores, const std::int32_t* ids, T* mix);

}  // namespace moescope
