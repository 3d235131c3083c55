// Updates of expert_bias after a step by the rules of router.balance_rule.
//
// Biases are used for selection only: no gradient reaches them. Killed experts keep bias and momentum, and all means
// are over the other experts. Legend: E experts, K top_k, n_e tokens of expert e.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/config/run_config.h"
#include "core/model/layers/batch_part.h"
#include "core/model/moe/router.h"
#include "core/numerics/matrix.h"

namespace moescope {

// The sign rule: b_e += d_e - mean(d) with d_e = rate * sign(mean(n) - n_e) and sign(0) = 0. The mean is subtracted
// only with `centring` (as in TorchTitan, not in arXiv:2408.15664, algorithm 1). bias_directions() returns d_e / rate,
// 0 for killed experts; move_expert_bias() updates the biases.
std::vector<double> bias_directions(std::span<const std::uint32_t> tokens_per_expert, Mask killed = {});
template <class T>
void move_expert_bias(std::span<T> expert_bias, std::span<const double> directions, double rate, bool centring,
                      Mask killed = {});

// Returns the directions of the rule `proportional`: (mean(n) - n_e) / mean(n), 0 for killed experts and for a batch
// without tokens. arXiv:2408.15664, section 4.3 (b_i += u e_i in place of u sign(e_i)), leaves the unit of the load
// open. Here the load is divided by its mean, so that the rate does not depend on the size of the batch.
std::vector<double> relative_shortfalls(std::span<const std::uint32_t> tokens_per_expert, Mask killed = {});

// SMEBU, soft-clamped momentum expert bias updates: the bias rule of Trinity Large (arXiv:2602.17004).
//   v_e = (mean(n) - n_e) / mean(n)
//   d_e = rate tanh(kappa v_e)             less the mean of d with bias_centring, as in the paper
//   m_e = beta m_e + (1 - beta) d_e,  b_e += m_e
// Trinity Large: rate 0.0005, kappa 2, beta 0.5. Under the sign rule, a bias never gets closer to its target than one
// step; here steps shrink with the load error. Rate, kappa, beta and centring are those of `config`. An empty
// momentum_E counts as zeros.
template <class T>
void update_by_smebu(const RouterConfig& config, std::span<const std::uint32_t> tokens_per_expert,
                     std::span<T> expert_bias, std::vector<T>& momentum, Mask killed = {});

// Returns the loads [E] of the whole batch as a framework has them that keeps counts in BF16 (router.count_format). In
// Megatron-LM (pull request 7081) the counts were a buffer that was converted to BF16 with the model, so that the
// counts of ranks and microbatches were added in BF16. Here each sequence is counted exactly, and the counts of the
// sequences are added in BF16, in order. sent_TK holds the experts of this rank's tokens, -1: none. Collective.
std::vector<float> bf16_counts(const BatchPart& part, std::span<const std::int32_t> sent, int n_experts);
// Adds the counts of the sequences one after the other in BF16: [sequences, E] -> [E].
std::vector<float> sum_in_bf16(std::span<const std::uint32_t> counts, int n_experts);
// Returns the direction of each expert's bias: -1, 0 or 1. For the mean, `loads` are added exactly, and the sum and the
// quotient are rounded to BF16 (like torch.sum and a division in BF16). Killed experts are not in the mean and get 0.
std::vector<double> directions_in_bf16(std::span<const float> loads, Mask killed = {});

// Quantile balancing: biases with which every expert would have been chosen by its fair share of the tokens.
//
// Legend: T tokens, E experts, K top_k, B bins. A token's cutoff is its (K+1)-th best choice value; it would have
// chosen expert e if e's bias had been above r_te = cutoff_t - s_te. So the K/E quantile of r_te over the tokens is the
// bias at which e gets its share. Adding one number to all biases does not change choices, so the mean over the experts
// is subtracted. Two algorithms have this name:
//   of the global batch: s are sigmoid scores, r is counted in a histogram, the old bias is forgotten (Kimi K3;
//   TorchTitan QuantileBalancer)
//   of a microbatch: s are logits, the quantile is exact, and the mean bias of the microbatches enters an exponential
//   moving average (Megatron-LM qb_dual_update, whose beta is minus the bias)
// Killed experts keep their bias and are not in the means; the other experts share the tokens.
inline constexpr int kQuantileBins = 1000;

// B equal bins from min(b) - 1 to max(b) + 1, which contain r if scores are from 0 to 1; values outside go to the first
// and last bin.
template <class T>
struct QuantileBins {
  T lowest = 0, width = 0;
  int count = 0;
};
template <class T>
QuantileBins<T> quantile_bins(std::span<const T> expert_bias, int count, Mask killed = {});

// Adds the r of these tokens, computed from scores_TE and cutoff_T, to the histograms counts_EB.
template <class T>
void count_distances(const QuantileBins<T>& bins, ConstMatrix<T> scores, std::span<const T> cutoff,
                     Matrix<std::uint32_t> counts);

// Computes the biases from counts_EB, which must count all tokens of the batch, at least one, for every living expert.
// Quantiles are interpolated within a bin.
template <class T>
void bias_from_counts(const QuantileBins<T>& bins, ConstMatrix<std::uint32_t> counts, int top_k,
                      std::span<T> expert_bias, Mask killed = {});

// Computes the biases with which each expert would have got n = T K / E of these tokens (rounded down): minus the
// (n+1)-th largest logit - cutoff. They are not centred. logits_TE, cutoff_T -> bias_E; the biases of killed experts do
// not change.
template <class T>
void bias_of_microbatch(ConstMatrix<T> logits, std::span<const T> cutoff, int top_k, std::span<T> bias,
                        Mask killed = {});

// b = ema b + (1 - ema) mean_bias, then centred.
template <class T>
void follow_bias(std::span<const T> mean_bias, double ema, std::span<T> expert_bias, Mask killed = {});

// Updates the biases after a step by router.balance_rule; with quantile_microbatch, each sequence is a microbatch.
// Biases do not change if every token chooses all living experts, so that it has no cutoff. Collective.
template <class T>
void balance_by_quantiles(const RouterConfig& config, const BatchPart& part, const RouterActivations<T>& router,
                          std::span<T> expert_bias, Mask killed = {});

// Moving quantile balancing: an even load of every sequence, without looking at later tokens (Su Jianlin,
// kexue.fm/archives/11760).
//
// An expert would get its fair share of the tokens up to the current one if it took the tokens with a score above the
// quantile 1 - K / E of its scores. The quantile is that of an exponential moving average of their histogram along the
// sequence:
//   h_t = g h_(t-1) + (1 - g) onehot(bin of s_te),  g = 0.99, 100 equal bins from 0 to 1
//   q_te = middle of the first bin up to which h_t adds up to 1 - K / E
// Experts are chosen by s_te - lambda q_te, plus a bias of the whole batch. The source leaves open
// how the average begins: here h_(-1) = 0, and h_t is divided by its sum, so that it is a distribution from the first
// token on.
// Legend: T tokens, E experts, K top_k.
inline constexpr int kMovingBins = 100;
inline constexpr double kMovingDecay = 0.99;

// Computes levelled_TE = s_te - lambda q_te of this rank's tokens, which are whole sequences; lambda is
// router.sequence_strength. Killed experts are not counted in E.
template <class T>
void level_sequences(const RouterConfig& config, const BatchPart& part, ConstMatrix<T> scores, Mask killed,
                     std::vector<T>& levelled_scores);

}  // namespace moescope
