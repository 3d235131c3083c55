// All figures computed from a router's counts and scores, each defined only here.
//
// Legend: T tokens of the batch, E routed experts, K top_k; n_e slots assigned to expert e, sum n_e = T K (no copy is
// dropped); n without index their mean, T K / E. `counts` is [n_0 ... n_(E-1)]. If nothing was routed (sum n_e = 0) a
// figure is kNoValue. Sums are taken in expert order in double precision, so that equal counts give equal bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/files/text/no_value.h"
#include "core/frame/frame.h"

namespace moescope {

// Adds the counts one by one. A sum with fewer elements is extended by zeros.
inline void add_counts(std::vector<std::uint32_t>& sum, const std::vector<std::uint32_t>& counts) {
  sum.resize(std::max(counts.size(), sum.size()));
  for (std::size_t i = 0; i < counts.size(); ++i) sum[i] += counts[i];
}

// u_e = n_e E / (K T): 1 is fair, 0 dead. NeMo Automodel's "expert utilization ratio".
float utilisation(std::span<const std::uint32_t> counts, std::size_t expert);

// max_e u_e - 1 = (max n_e - n) / n. arXiv:2408.15664 (MaxVio_batch; over more than one batch MaxVio_global).
float max_vio(std::span<const std::uint32_t> counts);
float max_vio(std::span<const std::uint64_t> counts);

// Chosen experts of a batch. ids_TK: -1 for no expert; padding_T: 1 for tokens that do not count, empty: all count.
struct RoutedIds {
  std::span<const std::int32_t> ids_TK;
  int top_k = 1, n_experts = 0;
  std::span<const std::uint8_t> padding_T = {};
};
// Returns the mean of max_vio() over `parts` equal consecutive parts of the tokens (microbatches, sequences). Parts
// without a token that counts are left out.
float mean_max_vio(const RoutedIds& routed, int parts);

// H / ln E with H = -sum p_e ln p_e, p_e = n_e / sum n_e: 1 is uniform, 0 is all on one expert. 1 for E = 1.
float entropy_norm(std::span<const std::uint32_t> counts);

// #{e : n_e = 0} / E. Pass the counts of a window, because a batch of few tokens has empty experts by chance.
float dead_fraction(std::span<const std::uint64_t> counts);

// sum_e (ceil(n_e / A) A - n_e) / sum n_e: share of zero rows that a grouped GEMM computes because each expert's rows
// are padded to a multiple of A = `alignment`, a power of two (32: a wgrad scale block must not straddle two experts,
// torchao MXFP8).
float padding_fraction(std::span<const std::uint32_t> counts, std::uint32_t alignment);

// sum_e max(0, n_e - cap) / sum n_e with cap = ceil(capacity_factor K T / E) (arXiv:2101.03961): share of copies that a
// router with this capacity drops. kNoValue for capacity_factor <= 0.
float dropped_fraction(std::span<const std::uint32_t> counts, double capacity_factor);

// sum_e max(0, cap - n_e) / sum n_e: share of rows with gate 0 that fill every expert up to its capacity (Megatron-LM
// --moe-pad-expert-input-to-capacity). They are sent and computed, and add nothing to results and gradients. kNoValue
// for capacity_factor <= 0.
float filler_fraction(std::span<const std::uint32_t> counts, double capacity_factor);

// Returns the q-quantile of the finite `values`, interpolated between two values (Hyndman and Fan's type 7, numpy's
// default); kNoValue if there is none.
float percentile(std::vector<float> values, double q);

// Mean MaxVio of a perfectly balanced router by chance alone: every token picks K of E experts, all sets equally
// likely. Each n_e then follows Binomial(T, K / E). The expected largest of E independent such counts is M = sum_(m >=
// 0) (1 - F(m)^E), F their distribution function, summed exactly. The counts are not independent: they sum to T K. For
// jointly normal counts this makes the excess of the largest over the mean greater by sqrt(E / (E - 1)):
//   floor = sqrt(E / (E - 1)) (M - n) / n.
// Within 2 % of simulation for n >= 4 (tests/core/frame/test_router_stats.cpp). For a window pass the window's tokens.
float max_vio_noise_floor(std::int64_t tokens, int top_k, int n_experts);
// max_vio_noise_floor() for `steps` batches of a run; NaN if its sizes are unknown.
double chance_max_vio(const RunInfo& info, int steps = 1);

// Other effects of chance on the load of a perfectly balanced router, whose n_e follow Binomial(T, K / E), n = T K / E:
// - standard deviation of u_e: sqrt((1 - K / E) / n). kNoValue where max_vio_noise_floor() has no value;
// - mean entropy in nats of n_e / (T K): ln(T K) - E mean(n_e ln n_e) / (T K), exact, because the sum of all n_e is
//   fixed. exp of it is the number of experts that such a sample shows in use: 27 of 64 with 6 tokens and top 6.
float utilisation_noise(std::int64_t tokens, int top_k, int n_experts);
double load_entropy_by_chance(std::int64_t tokens, int top_k, int n_experts);

// Entropy in nats of one token's scores as shares: -sum p_e ln p_e, p_e = s_e / sum s. Measures the confidence of the
// router, not the entropy of the load. Scores must not be negative (sigmoid or softmax).
float score_entropy(std::span<const float> scores_E);

// H(P) - mean H(p_t) in nats, P_e the mean over tokens of p_te = s_te / sum s (RouterFrame::score_mass) and mean H(p_t)
// the mean score entropy: the information of the token about the expert. 0 if every token has the same scores; at most
// ln E.
float mutual_information(std::span<const float> score_mass_E, float mean_score_entropy);

// Counts of the last `window` steps and their sum, from which max_vio_window and dead_fraction are computed.
class LoadWindow {
 public:
  LoadWindow(int n_experts, int window);
  void push(std::span<const std::uint32_t> counts);
  std::span<const std::uint64_t> counts() const { return sums_; }
  int steps() const { return filled_; }              // steps in the window, at most `window`
  std::span<const std::uint32_t> step(int i) const;  // counts of the i-th oldest step

 private:
  std::size_t n_experts_;
  int window_;
  int filled_ = 0;
  int next_ = 0;                     // row of `ring_` that the next push writes
  std::vector<std::uint32_t> ring_;  // [window, E]
  std::vector<std::uint64_t> sums_;  // [E]
};

// Fills the figures that follow from other values of the router and from the window that ends with its counts: max_vio,
// cv, entropy_norm, padding_fraction (to 32 rows), max_vio_window, dead_fraction, mutual_information. Figures that have
// a value keep it. cv is std(n_e) / n with the population's standard deviation (divided by E); its square is the load
// loss of arXiv:1701.06538.
void fill_derived_figures(RouterFrame& router, const LoadWindow& window);

// Figures of one MoE layer's dispatch, computed from its token copies. Legend: T tokens, R ranks, N nodes.
// sum distinct_RR / T: mean number of ranks that a token is sent to, including its own. kNoValue if no volumes were
// counted.
float ranks_per_token(const VolumeFrame& volume, std::int64_t tokens);

// sum nodes_RN / T: mean number of nodes that a token is sent to; the network traffic of a two-stage all-to-all follows
// from it.
float nodes_per_token(const VolumeFrame& volume, std::int64_t tokens);

// Returns the copies that arrive on each rank, [R], including those that stay on it: the column sums of copies_RR.
std::vector<std::uint64_t> received_by_rank(std::span<const std::uint32_t> copies_RR, int ranks);

// max_r n_r / mean_r n_r, n_r the token copies that arrive on rank r (column sums of copies_RR): 1 is even. The experts
// of the fullest rank determine the time of all. The overload factor of Megatron-LM (pull request 4110). kNoValue if no
// copy arrived.
float rank_overload(const VolumeFrame& volume);

// Sums over one layer's dispatch, in token copies. Copies that stay on their rank count as received, but not as moved.
struct DispatchTotals {
  double moved = 0;                 // to other ranks
  double across_nodes = 0;          // to other nodes; de-duplicated: one for each other node that a token is sent to
  double fullest = 0;               // received by the fullest rank, including its own copies
  double received = 0;              // received by all ranks
  double max_over_mean = kNoValue;  // fullest R / received
};
DispatchTotals dispatch_totals(const VolumeFrame& volume, bool deduplicated);

// Saved by DeepEP: 1 - network bytes of DeepEP / network bytes of the standard all-to-all, for the dispatch of one
// routing. kNoValue if no copy crosses nodes.
double saved_by_deepep(const VolumeFrame& volume);

// Loads that are known up to a factor, as shares are: they are kept as counts of which the mean is kCountsOfFairShare.
inline constexpr double kCountsOfFairShare = 10'000;
// Readers set padding_fraction to it if the loads are ratios, which have no rows to pad: ImportedRun keeps it missing.
inline constexpr float kNoRows = -std::numeric_limits<float>::infinity();

// True for the loads of a log that has shares and does not say of how many tokens.
inline bool are_shares(const RunInfo& run, const RouterFrame& router) {
  return run_origin(run) == RunOrigin::log && is_missing(router.padding_fraction) &&
         std::ranges::any_of(router.tokens_per_expert, [](auto count) { return count > 0; });
}

}  // namespace moescope
