// Updates of expert_bias after a step by the rules sign, proportional and smebu (router.balance_rule);
// quantile_balance.h has the other rules.
//
// Biases are used for selection only: no gradient reaches them. Killed experts keep bias and momentum, and all means
// are over the other experts. Legend: E experts, K top_k, n_e tokens of expert e.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/config/run_config.h"
#include "core/model/layers/batch_part.h"

namespace moescope {

// The sign rule: b_e += d_e - mean(d) with d_e = rate * sign(mean(n) - n_e) and sign(0) = 0. The mean is subtracted
// only with `centring` (as in TorchTitan, not in arXiv:2408.15664, algorithm 1). bias_directions() returns d_e / rate,
// 0 for killed experts; move_expert_bias() updates the biases.
std::vector<double> bias_directions(std::span<const std::uint32_t> tokens_per_expert,
                                    const std::uint8_t* killed = nullptr);
template <class T>
void move_expert_bias(std::span<T> expert_bias, std::span<const double> directions, double rate, bool centring,
                      const std::uint8_t* killed = nullptr);

// Returns the directions of the rule `proportional`: (mean(n) - n_e) / mean(n), 0 for killed experts and for a batch
// without tokens. arXiv:2408.15664, section 4.3 (b_i += u e_i in place of u sign(e_i)), leaves the unit of the load
// open. Here the load is divided by its mean, so that the rate does not depend on the size of the batch.
std::vector<double> relative_shortfalls(std::span<const std::uint32_t> tokens_per_expert,
                                        const std::uint8_t* killed = nullptr);

// SMEBU, soft-clamped momentum expert bias updates: the bias rule of Trinity Large (arXiv:2602.17004).
//   v_e = (mean(n) - n_e) / mean(n)
//   d_e = rate tanh(kappa v_e)             less the mean of d with bias_centring, as in the paper
//   m_e = beta m_e + (1 - beta) d_e,  b_e += m_e
// Trinity Large: rate 0.0005, kappa 2, beta 0.5. Under the sign rule, a bias never gets closer to its target than one
// step; here steps shrink with the load error. Rate, kappa, beta and centring are those of `config`. An empty
// momentum_E counts as zeros.
template <class T>
void update_by_smebu(const RouterConfig& config, std::span<const std::uint32_t> tokens_per_expert,
                     std::span<T> expert_bias, std::vector<T>& momentum, const std::uint8_t* killed = nullptr);

// Returns the loads [E] of the whole batch as a framework has them that keeps counts in BF16 (router.count_format). In
// Megatron-LM (pull request 7081) the counts were a buffer that was converted to BF16 with the model, so that the
// counts of ranks and microbatches were added in BF16. Here each sequence is counted exactly, and the counts of the
// sequences are added in BF16, in order. sent_TK holds the experts of this rank's tokens, -1: none. Collective.
std::vector<float> bf16_counts(const BatchPart& part, std::span<const std::int32_t> sent, int n_experts);
// Adds the counts of the sequences one after the other in BF16: [sequences, E] -> [E].
std::vector<float> sum_in_bf16(std::span<const std::uint32_t> counts, int n_experts);
// Returns the direction of each expert's bias: -1, 0 or 1. For the mean, `loads` are added exactly, and the sum and the
// quotient are rounded to BF16 (like torch.sum and a division in BF16). Killed experts are not in the mean and get 0.
std::vector<double> directions_in_bf16(std::span<const float> loads, const std::uint8_t* killed = nullptr);

}  // namespace moescope
