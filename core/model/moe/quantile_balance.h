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
#pragma once

#include <cstdint>
#include <span>

#include "core/model/moe/router.h"

namespace moescope {

inline constexpr int kQuantileBins = 1000;

// B equal bins from min(b) - 1 to max(b) + 1, which contain r if scores are from 0 to 1; values outside go to the first
// and last bin.
template <class T>
struct QuantileBins {
  T lowest = 0, width = 0;
  int count = 0;
};
template <class T>
QuantileBins<T> quantile_bins(std::span<const T> expert_bias, int count, const std::uint8_t* killed = nullptr);

// Adds the r of these tokens, computed from scores_TE and cutoff_T, to the histograms counts_EB.
template <class T>
void count_distances(const QuantileBins<T>& bins, const T* scores, const T* cutoff, std::size_t tokens, int n_experts,
                     std::uint32_t* counts);

// Computes the biases from counts_EB, which must count all tokens of the batch, at least one, for every living expert.
// Quantiles are interpolated within a bin.
template <class T>
void bias_from_counts(const QuantileBins<T>& bins, const std::uint32_t* counts, int top_k, std::span<T> expert_bias,
                      const std::uint8_t* killed = nullptr);

// Computes the biases with which each expert would have got n = T K / E of these tokens (rounded down): minus the
// (n+1)-th largest logit - cutoff. They are not centred. logits_TE, cutoff_T -> bias_E; the biases of killed experts do
// not change.
template <class T>
void bias_of_microbatch(const T* logits, const T* cutoff, std::size_t tokens, int top_k, std::span<T> bias,
                        const std::uint8_t* killed = nullptr);

// b = ema b + (1 - ema) mean_bias, then centred.
template <class T>
void follow_bias(std::span<const T> mean_bias, double ema, std::span<T> expert_bias,
                 const std::uint8_t* killed = nullptr);

// Updates the biases after a step by router.balance_rule; with quantile_microbatch, each sequence is a microbatch.
// Biases do not change if every token chooses all living experts, so that it has no cutoff. Collective.
template <class T>
void balance_by_quantiles(const RouterConfig& config, const BatchPart& part, const RouterActivations<T>& router,
                          std::span<T> expert_bias, const std::uint8_t* killed = nullptr);

}  // namespace moescope
