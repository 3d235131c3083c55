#include "core/model/moe/quantile_balance.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "core/numerics/size.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

using Living = std::vector<std::int32_t>;

template <class T>
T mean_of_living(std::span<const T> values, const Living& living) {
  double sum = 0;
  for (const std::int32_t e : living) sum += static_cast<double>(values[e]);
  return static_cast<T>(sum / static_cast<double>(living.size()));
}

// Returns the position, in bins, at which the counts add up to `target`.
template <class T>
T position_of(const std::uint32_t* counts, int bins, T target) {
  const auto whole = static_cast<std::uint64_t>(std::ceil(target));
  std::uint64_t before = 0;
  int bin = 0;
  for (; bin + 1 < bins && before + counts[bin] < whole; ++bin) before += counts[bin];
  return static_cast<T>(bin) + (target - static_cast<T>(before)) / static_cast<T>(counts[bin]);
}

template <class T>
void balance_global_batch(const RouterConfig& config, const BatchPart& part, const RouterActivations<T>& router,
                          std::span<T> expert_bias, const std::uint8_t* killed) {
  const auto bins = quantile_bins<T>(expert_bias, kQuantileBins, killed);
  std::vector<std::uint32_t> counts(expert_bias.size() * size(bins.count));
  count_distances(bins, router.judged(config), router.cutoff, part.tokens(), static_cast<int>(expert_bias.size()),
                  counts.data());
  sum_over_ranks(part.ranks, counts.data(), counts.size());
  bias_from_counts(bins, counts.data(), config.top_k, expert_bias, killed);
}

template <class T>
void balance_microbatches(const RouterConfig& config, const BatchPart& part, const RouterActivations<T>& router,
                          std::span<T> expert_bias, const std::uint8_t* killed) {
  const std::size_t experts = expert_bias.size(), length = part.length;
  std::vector<T> of_sequence(size(part.sequences) * experts), mean(experts);
  parallel_for(part.sequences, [&](int s) {
    bias_of_microbatch<T>(router.logits + size(s) * length * experts, router.cutoff + size(s) * length, length,
                          config.top_k, {of_sequence.data() + size(s) * experts, experts}, killed);
  });
  for (std::size_t e = 0; e < experts; ++e) {
    const double sum = sum_over_batch(part, [&](std::size_t first, std::size_t last) {
      double added = 0;
      for (std::size_t s = first / length; s < last / length; ++s)
        added += static_cast<double>(of_sequence[s * experts + e]);
      return added;
    });
    mean[e] = static_cast<T>(sum / part.all_sequences());
  }
  follow_bias<T>(mean, config.quantile_ema, expert_bias, killed);
}

}  // namespace

template <class T>
QuantileBins<T> quantile_bins(std::span<const T> expert_bias, int count, const std::uint8_t* killed) {
  T lowest = std::numeric_limits<T>::infinity(), highest = -lowest;
  for (const std::int32_t e : living_experts(expert_bias.size(), killed)) {
    lowest = std::min(lowest, expert_bias[e]);
    highest = std::max(highest, expert_bias[e]);
  }
  return {lowest - T{1}, (highest - lowest + T{2}) / static_cast<T>(count), count};
}

template <class T>
void count_distances(const QuantileBins<T>& bins, const T* scores, const T* cutoff, std::size_t tokens, int n_experts,
                     std::uint32_t* counts) {
  parallel_for(n_experts, [&](int e) {
    std::uint32_t* of_expert = counts + size(e) * size(bins.count);
    for (std::size_t t = 0; t < tokens; ++t) {
      const T distance = cutoff[t] - scores[t * size(n_experts) + size(e)];
      const T bin = std::floor((distance - bins.lowest) / bins.width);
      // A NaN, which occurs if training has diverged, goes to bin 0.
      ++of_expert[bin > 0 ? size(static_cast<int>(std::min(bin, static_cast<T>(bins.count - 1)))) : 0];
    }
  });
}

// The target is computed in T, as in TorchTitan, because the rounding decides whether the target reaches a whole
// number.
template <class T>
void bias_from_counts(const QuantileBins<T>& bins, const std::uint32_t* counts, int top_k, std::span<T> expert_bias,
                      const std::uint8_t* killed) {
  const Living living = living_experts(expert_bias.size(), killed);
  const auto share = static_cast<T>(static_cast<double>(top_k) / static_cast<double>(living.size()));
  std::vector<T> position(expert_bias.size());
  for (const std::int32_t e : living) {
    const std::uint32_t* of_expert = counts + size(e) * size(bins.count);
    std::uint64_t tokens = 0;
    for (int b = 0; b < bins.count; ++b) tokens += of_expert[b];
    position[e] = position_of(of_expert, bins.count, static_cast<T>(tokens) * share);
  }
  const T mean = mean_of_living<T>(position, living);
  for (const std::int32_t e : living) expert_bias[e] = (position[e] - mean) * bins.width;
}

template <class T>
void bias_of_microbatch(const T* logits, const T* cutoff, std::size_t tokens, int top_k, std::span<T> bias,
                        const std::uint8_t* killed) {
  const Living living = living_experts(bias.size(), killed);
  const std::size_t fair = tokens * size(top_k) / living.size();
  assert(fair < tokens);
  std::vector<T> above(tokens);
  for (const std::int32_t e : living) {
    for (std::size_t t = 0; t < tokens; ++t) {
      const T distance = logits[t * bias.size() + size(e)] - cutoff[t];
      // A NaN, which occurs if training has diverged, cannot be ordered.
      above[t] = std::isnan(distance) ? -std::numeric_limits<T>::infinity() : distance;
    }
    const auto next = above.begin() + static_cast<std::ptrdiff_t>(fair);
    std::nth_element(above.begin(), next, above.end(), std::greater());
    bias[e] = -*next;
  }
}

template <class T>
void follow_bias(std::span<const T> mean_bias, double ema, std::span<T> expert_bias, const std::uint8_t* killed) {
  const T old_weight = static_cast<T>(ema), new_weight = static_cast<T>(1 - ema);
  const Living living = living_experts(expert_bias.size(), killed);
  for (const std::int32_t e : living) expert_bias[e] = old_weight * expert_bias[e] + new_weight * mean_bias[e];
  const T mean = mean_of_living<T>(expert_bias, living);
  for (const std::int32_t e : living) expert_bias[e] -= mean;
}

template <class T>
void balance_by_quantiles(const RouterConfig& config, const BatchPart& part, const RouterActivations<T>& router,
                          std::span<T> expert_bias, const std::uint8_t* killed) {
  if (living_experts(expert_bias.size(), killed).size() <= size(config.top_k)) return;
  if (config.balance_rule == BalanceRule::quantile_microbatch)
    balance_microbatches(config, part, router, expert_bias, killed);
  else
    balance_global_batch(config, part, router, expert_bias, killed);
}

#define INSTANTIATE(T)                                                                                            \
  template QuantileBins<T> quantile_bins<T>(std::span<const T>, int, const std::uint8_t*);                        \
  template void count_distances<T>(const QuantileBins<T>&, const T*, const T*, std::size_t, int, std::uint32_t*); \
  template void bias_from_counts<T>(const QuantileBins<T>&, const std::uint32_t*, int, std::span<T>,              \
                                    const std::uint8_t*);                                                         \
  template void bias_of_microbatch<T>(const T*, const T*, std::size_t, int, std::span<T>, const std::uint8_t*);   \
  template void follow_bias<T>(std::span<const T>, double, std::span<T>, const std::uint8_t*);                    \
  template void balance_by_quantiles<T>(const RouterConfig&, const BatchPart&, const RouterActivations<T>&,       \
                                        std::span<T>, const std::uint8_t*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
