#include "core/model/moe/bias_rules.h"

#include <cassert>
#include <cmath>

#include "core/model/moe/router.h"
#include "core/numerics/kernels/float_rounding.h"
#include "core/numerics/size.h"

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

}  // namespace

std::vector<double> bias_directions(std::span<const std::uint32_t> tokens_per_expert, const std::uint8_t* killed) {
  const std::vector<std::int32_t> living = living_experts(tokens_per_expert.size(), killed);
  const std::uint64_t total = tokens_of(tokens_per_expert, living);
  std::vector<double> directions(tokens_per_expert.size());
  for (const std::int32_t e : living)  // compares n_e E with the total: exact, whereas mean(n) may be rounded
    directions[e] = sign_of_difference(total, std::uint64_t{tokens_per_expert[e]} * living.size());
  return directions;
}

template <class T>
void move_expert_bias(std::span<T> expert_bias, std::span<const double> directions, double rate, bool centring,
                      const std::uint8_t* killed) {
  const std::vector<std::int32_t> living = living_experts(expert_bias.size(), killed);
  double sum = 0;
  for (const std::int32_t e : living) sum += directions[e];
  const double mean = centring ? rate * sum / static_cast<double>(living.size()) : 0;
  for (const std::int32_t e : living) expert_bias[e] += static_cast<T>(rate * directions[e] - mean);
}

std::vector<double> relative_shortfalls(std::span<const std::uint32_t> tokens_per_expert, const std::uint8_t* killed) {
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
                     std::span<T> expert_bias, std::vector<T>& momentum, const std::uint8_t* killed) {
  assert(expert_bias.size() == tokens_per_expert.size());
  momentum.resize(expert_bias.size(), T{0});
  const std::vector<std::int32_t> living = living_experts(expert_bias.size(), killed);
  std::vector<double> steps = relative_shortfalls(tokens_per_expert, killed);
  double sum = 0;
  for (const std::int32_t e : living) {
    steps[e] = config.bias_update_rate * std::tanh(config.bias_soft_clamp * steps[e]);
    sum += steps[e];
  }
  const double mean = config.bias_centring ? sum / static_cast<double>(living.size()) : 0;
  for (const std::int32_t e : living) {
    const double kept_momentum = config.bias_momentum * static_cast<double>(momentum[e]);
    momentum[e] = static_cast<T>(kept_momentum + (1 - config.bias_momentum) * (steps[e] - mean));
    expert_bias[e] += momentum[e];
  }
}

std::vector<float> sum_in_bf16(std::span<const std::uint32_t> counts, int n_experts) {
  std::vector<float> sums(size(n_experts), 0.0f);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    float& sum = sums[i % sums.size()];
    sum = bf16_rounded(sum + bf16_rounded(static_cast<float>(counts[i])));
  }
  return sums;
}

std::vector<float> bf16_counts(const BatchPart& part, std::span<const std::int32_t> sent, int n_experts) {
  const std::size_t experts = size(n_experts), of_sequence = sent.size() / size(part.sequences);
  std::vector<std::uint32_t> counts(size(part.sequences) * experts, 0);
  for (std::size_t i = 0; i < sent.size(); ++i)
    if (sent[i] >= 0) ++counts[i / of_sequence * experts + size(sent[i])];
  if (!part.ranks) return sum_in_bf16(counts, n_experts);
  std::vector<std::uint32_t> all(counts.size() * size(part.rank_count));
  part.ranks->gather_all(counts.data(), counts.size() * sizeof(std::uint32_t), all.data());
  return sum_in_bf16(all, n_experts);
}

std::vector<double> directions_in_bf16(std::span<const float> loads, const std::uint8_t* killed) {
  const std::vector<std::int32_t> living = living_experts(loads.size(), killed);
  double total = 0;
  for (const std::int32_t e : living) total += loads[e];
  const float mean = bf16_rounded(bf16_rounded(static_cast<float>(total)) / static_cast<float>(living.size()));
  std::vector<double> directions(loads.size());
  for (const std::int32_t e : living) directions[e] = sign_of_difference(mean, loads[e]);
  return directions;
}

#define INSTANTIATE(T)                                                                                                 \
  template void move_expert_bias<T>(std::span<T>, std::span<const double>, double, bool, const std::uint8_t*);         \
  template void update_by_smebu<T>(const RouterConfig&, std::span<const std::uint32_t>, std::span<T>, std::vector<T>&, \
                                   const std::uint8_t*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
