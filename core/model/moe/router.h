// The router of one MoE layer: scores, the choice of experts, mixing weights, auxiliary losses, expert_bias.
//
// Legend: T = B*S tokens of this rank (B sequences of S), D dim, E experts, K top_k, G groups, V vocabulary. As in
// TorchTitan (models/moe): s = sigmoid, softmax or (DeepSeek-V4) sqrt(softplus) of gate(h); experts are chosen by s +
// expert_bias, tokens are mixed by s alone. With router.balance_rule = quantile_microbatch they are chosen by gate(h) +
// expert_bias, with quantile_sequence by s - strength * moving quantile + expert_bias.
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
  Matrix<T> logits, scores;        // [T, E]
  Matrix<T> mix;                   // [T, K] mixing weights, in the order of `ids`
  Matrix<T> load;                  // [B, E] f of the auxiliary loss; in batch mode a row for each microbatch
  std::span<T> lse;                // [T] log-sum-exp of the logits; only with softmax or z-loss
  std::span<T> margin, cutoff;     // [T] see ChoiceLimits
  std::vector<T> levelled_scores;  // [T, E] scores less moving quantiles (bias_rules.h); empty with other rules
  // [T, K] chosen experts, ascending (round-robin order with forced balance, the table's order in layers routed by a
  // table).
  std::vector<std::int32_t> ids;
  // [T, K] `ids` with -1 for dropped copies; empty if no copy can be dropped.
  std::vector<std::int32_t> not_dropped;
  std::vector<std::uint32_t> tokens_per_expert;  // [E] slots in the whole batch, dropped copies included
  std::vector<std::uint32_t> rows_per_expert;    // [E] slots in the whole batch without dropped copies
  double aux_loss = 0, z_loss = 0;               // of the whole batch, with their coefficients
  // Kept from the forward pass for the backward pass.
  Mask padding;                 // RoutingInputs::padding
  std::size_t counted = 0;      // tokens of the whole batch without padding
  std::size_t load_tokens = 0;  // tokens of this rank, with padding, that share a row of `load`
  std::vector<T> load_weight;   // factor of the auxiliary loss's gradient, for each row of `load`

  void plan(Arena<T>& arena, const BatchPart& part, int n_experts, int top_k);
  // Returns the experts [T, K] that receive the copies; -1 for a dropped copy.
  const std::vector<std::int32_t>& sent() const { return not_dropped.empty() ? ids : not_dropped; }
  // Returns the values [T, E] to which expert_bias is added for the choice of experts, without gate_noise.
  Matrix<const T> judged(const RouterConfig& config) const;
};

// Other inputs of a layer's router. Empty ones are not given.
struct RoutingInputs {
  Mask killed = {};                           // [E] experts that cannot be chosen; at least top_k remain
  std::uint64_t noise_seed = 0;               // seed of router.gate_noise, another one for each layer and step
  Matrix<const std::int32_t> given_ids = {};  // [T, K] experts of this rank's tokens, in place of the router's choice
  Matrix<const std::int32_t> replayed = {};   // [T, K] another run's experts; margins are the router's
  Mask padding = {};                          // [T] tokens that are routed, but not counted
  int microbatches = 1;                       // microbatches of the batch; 1 with several ranks
};

// Returns the experts that can be chosen, ascending.
std::vector<std::int32_t> living_experts(std::size_t n_experts, Mask killed);

template <class T>
struct RouterInputs {
  Matrix<const T> gate;                 // [E, D]
  Matrix<const T> h;                    // [T, D]
  std::span<const T> expert_bias = {};  // [E]; only router_forward() reads it
};
// Computes all values in `a`.
template <class T>
void router_forward(const RouterConfig& config, const BatchPart& part, const RouterInputs<T>& in,
                    RouterActivations<T>& a, const LinearPrecision& precision = {}, const RoutingInputs& limits = {});

template <class T>
struct RouterGradients {
  Matrix<const T> dmix;  // [T, K] input; the other gradients are computed from it
  Matrix<T> dlogits;     // [T, E]
  Matrix<T> dgate;       // [E, D]
  Matrix<T> dh;          // [T, D] gradient through the scores
  bool adds_dh;          // true: dh is added to; false: it is overwritten
};
template <class T>
void router_backward(const RouterConfig& config, const RouterInputs<T>& in, const RouterActivations<T>& a,
                     const RouterGradients<T>& gradients, const LinearPrecision& precision = {});

template <class T>
struct ChoiceLimits {
  T margin;  // K-th minus (K+1)-th choice score; NaN if there is no (K+1)-th
  T cutoff;  // the (K+1)-th choice score; NaN if there is none
};
// Chooses the top_k largest of the values choice_E; of equal values, the one with the lowest index. ids_K receives the
// experts, ascending. The score of a group with one living expert is the value of this expert; a group without living
// experts is never chosen.
template <class T>
ChoiceLimits<T> choose_experts(const RouterConfig& config, std::span<const T> choice, std::span<std::int32_t> ids,
                               Mask killed = {});

// Computes mix_K of the given experts ids_K from a token's scores_E: s, or s / (sum over the K + 1e-20), times
// route_scale.
template <class T>
void mixing_weights(const RouterConfig& config, std::span<const T> scores, std::span<const std::int32_t> ids,
                    std::span<T> mix);

// Returns the number of rows that an expert takes: ceil(T K / E * factor). If it is T or more, nothing is dropped.
int expert_capacity(std::size_t tokens, int top_k, int n_experts, double factor);

// Drops the tokens of a microbatch beyond the capacity of an expert, as in Megatron-LM's apply_router_token_dropping,
// but without padding rows. Keeps `capacity` copies of each expert: with the policy `probs` those with the largest
// mixing weights (of equal ones, those of the first tokens), with `position` those of the first tokens. Sets the others
// in ids_TK to -1, and their weights in mix_TK to 0; neither has gaps. The remaining weights of a token are not
// normalised again, and a token does not get another expert. Copies of padding (padding_T) are kept and not counted.
template <class T>
void drop_beyond_capacity(TokenDrop policy, int n_experts, int capacity, Matrix<std::int32_t> ids, Matrix<T> mix,
                          Mask padding = {});

// Experts by token id, for layers routed by a table (router.n_hash_layers; DeepSeek-V4's hash layers).
class ExpertTable {
 public:
  // Draws K different experts for each token id: the places of the K largest of E random numbers, drawn anew for each
  // row and layer (as TorchTitan does; DeepSeek's own table is not published).
  ExpertTable(std::int64_t seed, int layer, int vocab, int n_experts, int top_k);
  // Takes rows_VK as the table.
  ExpertTable(std::vector<std::int32_t> rows, int top_k) : top_k_(top_k), rows_(std::move(rows)) {}

  // Writes ids_TK of these tokens, in the table's order.
  void look_up(std::span<const std::int32_t> tokens, std::vector<std::int32_t>& ids) const;

 private:
  int top_k_;
  std::vector<std::int32_t> rows_;  // [V, K]
};

}  // namespace moescope
