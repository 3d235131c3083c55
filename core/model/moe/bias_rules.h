// How expert_bias moves after a step, by router.balance_rule; quantile_balance.h has the other rules.
//
// Biases are used for selection only: no gradient reaches them. Killed experts keep bias and momentum, and all means
// are over the others. Legend: E experts, K top_k, n_e tokens of expert e.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/config/run_config.h"
#include "core/model/layers/batch_part.h"

namespace moescope {

// The rule of the sign: b_e += d_e - mean(d) with d_e = rate * sign(mean(n) - n_e); the mean is subtracted only with
// `centring` (TorchTitan; arXiv:2408.15664, algorithm 1, does not). sign(0) = 0. Directions are d_e / rate, 0 for
// killed experts.
std::vector<double> bias_directions(std::span<const std::uint32_t> tokens_per_expert,
                                    const std::uint8_t* killed = nullptr);
template <class T>
void move_expert_bias(std::span<T> expert_bias, std::span<const double> directions, double rate, bool centring,
                      const std::uint8_t* killed = nullptr);

// The directions of the rule `proportional`: (mean(n) - n_e) / mean(n), 0 for killed experts and for a batch without
// tokens. arXiv:2408.15664, section 4.3 (b_i += u e_i in place of u sign(e_i)); it leaves the unit of the load open:
// divided by its mean, the rate does not depend on the size of the batch.
std::vector<double> relative_shortfalls(std::span<const std::uint32_t> tokens_per_expert,
                                        const std::uint8_t* killed = nullptr);

// SMEBU, soft-clamped momentum expert bias updates: the bias rule of Trinity Large (arXiv:2602.17004).
//   v_e = (mean(n) - n_e) / mean(n)
//   d_e = rate tanh(kappa v_e)             less the mean of d with bias_centring, as in the paper
//   m_e = beta m_e + (1 - beta) d_e,  b_e += m_e
// Trinity Large: rate 0.0005, kappa 2, beta 0.5. The sign rule never gets closer to a bias than its step; here steps
// shrink with the error. Rate, kappa, beta and centring are those of `config`. An empty momentum_E is one of zeros.
template <class T>
void update_by_smebu(const RouterConfig& config, std::span<const std::uint32_t> tokens_per_expert,
                     std::span<T> expert_bias, std::vector<T>& momentum, const std::uint8_t* killed = nullptr);

// The loads by which expert_bias moves when a framework keeps them in BF16 (router.count_format). Megatron-LM, pull
// request 7081: the counts were a buffer that was converted with the model, so that ranks and microbatches were added
// in BF16. Here each sequence is a part that is counted exactly and then added, in order. [E] of the whole batch;
// sent_TK: the experts of the tokens here, -1: none. Collective.
std::vector<float> bf16_counts(const BatchPart& part, std::span<const std::int32_t> sent, int n_experts);
// The parts' counts, added one after the other in BF16: [parts, E] -> [E].
std::vector<float> sum_in_bf16(std::span<const std::uint32_t> counts, int n_experts);
// -1, 0 or 1 for each expert: where its bias moves. The mean of `loads` is summed up exactly, rounded to BF16, divided
// and rounded again (torch.sum and its quotient in BF16). Killed experts count for nothing and get 0.
std::vector<double> directions_in_bf16(std::span<const float> loads, const std::uint8_t* killed = nullptr);

}  // namespace moescope
