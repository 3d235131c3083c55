#include "core/model/moe/bias_rules.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "core/numerics/elementary.h"
#include "core/numerics/kernels/float_rounding.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

double sign_of_difference(auto above, auto below) {
  return static_cast<int>(below < above) - static_cast<int>(below > above);
}

std::uint64_t tokens_of(std::span<const std::uint32_t> tokens_per_expert, const std::vector<std::int32_t>& experts) {
  std::uint64_t tokens = 0;
  for (const std::int32_t e : experts) tokens += tokens_per_expert[e];
  return tokens;
}

using Living = std::vector<std::int32_t>;

template <class T>
T mean_of_living(std::span<const T> values, const Living& living) {
  double sum = 0;
  for (const std::int32_t e : living) sum += static_cast<double>(values[e]);
  return static_cast<T>(sum / living.size());
}

// Returns the position, in bins, at which the counts add up to `target`.
template <class T>
T position_of(std::span<const std::uint32_t> counts, T target) {
  const auto whole = static_cast<std::uint64_t>(std::ceil(target));
  std::uint64_t before = 0;
  std::size_t bin = 0;
  for (; bin + 1 < counts.size() && before + counts[bin] < whole; ++bin) before += counts[bin];
  return static_cast<T>(bin) + (target - static_cast<T>(before)) / static_cast<T>(counts[bin]);
}

template <class T>
void balance_global_batch(const RouterConfig& config, const BatchPart& part, const RouterActivations<T>& router,
                          std::span<T> expert_bias, Mask killed) {
  const auto bins = quantile_bins<T>(expert_bias, kQuantileBins, killed);
  std::vector<std::uint32_t> counted(expert_bias.size() * bins.count);
  const Matrix<std::uint32_t> counts(counted.data(), expert_bias.size(), bins.count);
  count_distances<T>(bins, router.judged(config), router.cutoff, counts);
  sum_over_ranks(part.ranks, std::span(counted));
  bias_from_counts<T>(bins, counts, config.top_k, expert_bias, killed);
}

template <class T>
void balance_microbatches(const RouterConfig& config, const BatchPart& part, const RouterActivations<T>& router,
                          std::span<T> expert_bias, Mask killed) {
  const std::size_t experts = expert_bias.size(), length = part.length;
  std::vector<T> bias_values(part.sequences * experts), mean(experts);
  const Matrix<T> sequence_bias(bias_values.data(), part.sequences, experts);
  parallel_for(part.sequences, [&](int s) {
    bias_of_microbatch<T>(router.logits.row_block(s * length, length), router.cutoff.subspan(s * length, length),
                          config.top_k, sequence_bias.values(s), killed);
  });
  for (std::size_t e = 0; e < experts; ++e) {
    const double sum = sum_over_batch(part, [&](std::size_t first, std::size_t last) {
      double added = 0;
      for (std::size_t s = first / length; s < last / length; ++s)
        added += static_cast<double>(sequence_bias.row(s)[e]);
      return added;
    });
    mean[e] = static_cast<T>(sum / part.all_sequences());
  }
  follow_bias<T>(mean, config.quantile_ema, expert_bias, killed);
}

// The moving average of one expert's histogram of scores.
class MovingHistogram {
 public:
  void add(double score) {
    for (double& share : shares_) share *= kMovingDecay;
    // A NaN, which occurs if training has diverged, goes to bin 0.
    const double bin = score * kMovingBins;
    shares_[bin > 0 ? static_cast<int>(std::min(bin, kMovingBins - 1.0)) : 0] += 1 - kMovingDecay;
    sum_ = sum_ * kMovingDecay + (1 - kMovingDecay);
  }
  // Returns the middle of the first bin up to which the shares add up to at least `part` of their sum.
  double quantile(double part) const {
    std::size_t bin = 0;
    for (double below = shares_[0]; below < part * sum_ && bin + 1 < shares_.size(); below += shares_[bin]) ++bin;
    return (bin + 0.5) / kMovingBins;
  }

 private:
  std::array<double, kMovingBins> shares_{};
  double sum_ = 0;
};

}  // namespace

std::vector<double> bias_directions(std::span<const std::uint32_t> tokens_per_expert, Mask killed) {
  const std::vector<std::int32_t> living = living_experts(tokens_per_expert.size(), killed);
  const std::uint64_t total = tokens_of(tokens_per_expert, living);
  std::vector<double> directions(tokens_per_expert.size());
  for (const std::int32_t e : living)  // compares n_e E with the total: exact, whereas mean(n) may be rounded
    directions[e] = sign_of_difference(total, std::uint64_t{tokens_per_expert[e]} * living.size());
  return directions;
}

template <class T>
void move_expert_bias(std::span<T> expert_bias, std::span<const double> directions, double rate, bool centring,
                      Mask killed) {
  const std::vector<std::int32_t> living = living_experts(expert_bias.size(), killed);
  double sum = 0;
  for (const std::int32_t e : living) sum += directions[e];
  const double mean = centring ? rate * sum / living.size() : 0;
  for (const std::int32_t e : living) expert_bias[e] += static_cast<T>(rate * directions[e] - mean);
}

std::vector<double> relative_shortfalls(std::span<const std::uint32_t> tokens_per_expert, Mask killed) {
  const std::vector<std::int32_t> living = living_experts(tokens_per_expert.size(), killed);
  const double total = tokens_of(tokens_per_expert, living);
  std::vector<double> shortfalls(tokens_per_expert.size());
  if (total == 0) return shortfalls;
  for (const std::int32_t e : living)
    shortfalls[e] = 1 - tokens_per_expert[e] * static_cast<double>(living.size()) / total;
  return shortfalls;
}

template <class T>
void update_by_smebu(const RouterConfig& config, std::span<const std::uint32_t> tokens_per_expert,
                     std::span<T> expert_bias, std::vector<T>& momentum, Mask killed) {
  assert(expert_bias.size() == tokens_per_expert.size());
  momentum.resize(expert_bias.size(), T{0});
  const std::vector<std::int32_t> living = living_experts(expert_bias.size(), killed);
  std::vector<double> steps = relative_shortfalls(tokens_per_expert, killed);
  double sum = 0;
  for (const std::int32_t e : living) {
    steps[e] = config.bias_update_rate * ordered_tanh(config.bias_soft_clamp * steps[e]);
    sum += steps[e];
  }
  const double mean = config.bias_centring ? sum / living.size() : 0;
  for (const std::int32_t e : living) {
    const double kept_momentum = config.bias_momentum * static_cast<double>(momentum[e]);
    momentum[e] = static_cast<T>(kept_momentum + (1 - config.bias_momentum) * (steps[e] - mean));
    expert_bias[e] += momentum[e];
  }
}

std::vector<float> sum_in_bf16(std::span<const std::uint32_t> counts, int n_experts) {
  std::vector<float> sums(n_experts, 0.0f);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    float& sum = sums[i % sums.size()];
    sum = bf16_rounded(sum + bf16_rounded(counts[i]));
  }
  return sums;
}

std::vector<float> bf16_counts(const BatchPart& part, std::span<const std::int32_t> sent, int n_experts) {
  const std::size_t experts = n_experts, slots_per_sequence = sent.size() / part.sequences;
  std::vector<std::uint32_t> counts(part.sequences * experts, 0);
  for (std::size_t i = 0; i < sent.size(); ++i)
    if (sent[i] >= 0) ++counts[i / slots_per_sequence * experts + sent[i]];
  if (!part.ranks) return sum_in_bf16(counts, n_experts);
  std::vector<std::uint32_t> all(counts.size() * part.rank_count);
  part.ranks->gather_all(counts.data(), counts.size() * sizeof(std::uint32_t), all.data());
  return sum_in_bf16(all, n_experts);
}

std::vector<double> directions_in_bf16(std::span<const float> loads, Mask killed) {
  const std::vector<std::int32_t> living = living_experts(loads.size(), killed);
  double total = 0;
  for (const std::int32_t e : living) total += loads[e];
  const float mean = bf16_rounded(bf16_rounded(static_cast<float>(total)) / living.size());
  std::vector<double> directions(loads.size());
  for (const std::int32_t e : living) directions[e] = sign_of_difference(mean, loads[e]);
  return directions;
}

template <class T>
QuantileBins<T> quantile_bins(std::span<const T> expert_bias, int count, Mask killed) {
  T lowest = std::numeric_limits<T>::infinity(), highest = -lowest;
  for (const std::int32_t e : living_experts(expert_bias.size(), killed)) {
    lowest = std::min(lowest, expert_bias[e]);
    highest = std::max(highest, expert_bias[e]);
  }
  return {lowest - T{1}, (highest - lowest + T{2}) / static_cast<T>(count), count};
}

template <class T>
void count_distances(const QuantileBins<T>& bins, ConstMatrix<T> scores, std::span<const T> cutoff,
                     Matrix<std::uint32_t> counts) {
  parallel_for(to_int(counts.rows), [&](int e) {
    for (Index t = 0; t < scores.rows; ++t) {
      const T distance = cutoff[t] - scores.row(t)[e];
      const T bin = std::floor((distance - bins.lowest) / bins.width);
      // A NaN, which occurs if training has diverged, goes to bin 0.
      ++counts.row(e)[bin > 0 ? static_cast<int>(std::min(bin, static_cast<T>(bins.count - 1))) : 0];
    }
  });
}

// The target is computed in T, as in TorchTitan, because the rounding decides whether the target reaches a whole
// number.
template <class T>
void bias_from_counts(const QuantileBins<T>& bins, ConstMatrix<std::uint32_t> counts, int top_k,
                      std::span<T> expert_bias, Mask killed) {
  const Living living = living_experts(expert_bias.size(), killed);
  const auto share = static_cast<T>(static_cast<double>(top_k) / living.size());
  std::vector<T> position(expert_bias.size());
  for (const std::int32_t e : living) {
    const std::span<const std::uint32_t> expert_counts = counts.values(e);
    const auto tokens = std::accumulate(expert_counts.begin(), expert_counts.end(), std::uint64_t{0});
    position[e] = position_of(expert_counts, static_cast<T>(tokens) * share);
  }
  const T mean = mean_of_living<T>(position, living);
  for (const std::int32_t e : living) expert_bias[e] = (position[e] - mean) * bins.width;
}

template <class T>
void bias_of_microbatch(ConstMatrix<T> logits, std::span<const T> cutoff, int top_k, std::span<T> bias, Mask killed) {
  const Living living = living_experts(bias.size(), killed);
  const std::size_t fair = logits.rows * top_k / living.size();
  std::vector<T> above(logits.rows);
  assert(fair < above.size());
  for (const std::int32_t e : living) {
    for (Index t = 0; t < logits.rows; ++t) {
      const T distance = logits.row(t)[e] - cutoff[t];
      // A NaN, which occurs if training has diverged, cannot be ordered.
      above[t] = std::isnan(distance) ? -std::numeric_limits<T>::infinity() : distance;
    }
    const auto next = above.begin() + fair;
    std::nth_element(above.begin(), next, above.end(), std::greater());
    bias[e] = -*next;
  }
}

template <class T>
void follow_bias(std::span<const T> mean_bias, double ema, std::span<T> expert_bias, Mask killed) {
  const T old_weight = static_cast<T>(ema), new_weight = static_cast<T>(1 - ema);
  const Living living = living_experts(expert_bias.size(), killed);
  for (const std::int32_t e : living) expert_bias[e] = old_weight * expert_bias[e] + new_weight * mean_bias[e];
  const T mean = mean_of_living<T>(expert_bias, living);
  for (const std::int32_t e : living) expert_bias[e] -= mean;
}

template <class T>
void balance_by_quantiles(const RouterConfig& config, const BatchPart& part, const RouterActivations<T>& router,
                          std::span<T> expert_bias, Mask killed) {
  if (std::ssize(living_experts(expert_bias.size(), killed)) <= config.top_k) return;
  if (config.balance_rule == BalanceRule::quantile_microbatch)
    balance_microbatches(config, part, router, expert_bias, killed);
  else
    balance_global_batch(config, part, router, expert_bias, killed);
}

template <class T>
void level_sequences(const RouterConfig& config, const BatchPart& part, ConstMatrix<T> scores, Mask killed,
                     std::vector<T>& levelled_scores) {
  const std::size_t experts = scores.cols, length = part.length;
  const double living = living_experts(experts, killed).size(), rejected = 1 - config.top_k / living;
  levelled_scores.resize(part.tokens() * experts);
  parallel_for(part.sequences, [&](int s) {
    std::vector<MovingHistogram> histograms(experts);
    for (std::size_t t = s * length; t < (s + 1) * length; ++t)
      for (std::size_t e = 0; e < experts; ++e) {
        const auto score = static_cast<double>(scores.row(t)[e]);
        histograms[e].add(score);
        levelled_scores[t * experts + e] =
            static_cast<T>(score - config.sequence_strength * histograms[e].quantile(rejected));
      }
  });
}

#define INSTANTIATE(T)                                                                                                 \
  template void move_expert_bias<T>(std::span<T>, std::span<const double>, double, bool, Mask);                        \
  template void update_by_smebu<T>(const RouterConfig&, std::span<const std::uint32_t>, std::span<T>, std::vector<T>&, \
                                   Mask);                                                                              \
  template QuantileBins<T> quantile_bins<T>(std::span<const T>, int, Mask);                                            \
  template void count_distances<T>(const QuantileBins<T>&, ConstMatrix<T>, std::span<const T>, Matrix<std::uint32_t>); \
  template void bias_from_counts<T>(const QuantileBins<T>&, ConstMatrix<std::uint32_t>, int, std::span<T>, Mask);      \
  template void bias_of_microbatch<T>(ConstMatrix<T>, std::span<const T>, int, std::span<T>, Mask);                    \
  template void follow_bias<T>(std::span<const T>, double, std::span<T>, Mask);                                        \
  template void balance_by_quantiles<T>(const RouterConfig&, const BatchPart&, const RouterActivations<T>&,            \
                                        std::span<T>, Mask);                                                           \
  template void level_sequences<T>(const RouterConfig&, const BatchPart&, ConstMatrix<T>, Mask, std::vector<T>&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
