#include "core/model/moe/stored_counts.h"

#include "core/numerics/kernels/float_rounding.h"
#include "core/numerics/size.h"

namespace moescope {

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
  std::vector<std::uint32_t> all(counts.size() * size(part.of));
  part.ranks->gather_all(counts.data(), counts.size() * sizeof(std::uint32_t), all.data());
  return sum_in_bf16(all, n_experts);
}

std::vector<double> directions_in_bf16(std::span<const float> loads, const std::uint8_t* killed) {
  double total = 0;
  float experts = 0;
  for (std::size_t e = 0; e < loads.size(); ++e)
    if (!killed || !killed[e]) total += static_cast<double>(loads[e]), ++experts;
  const float mean = bf16_rounded(bf16_rounded(static_cast<float>(total)) / experts);
  std::vector<double> directions(loads.size(), 0);
  for (std::size_t e = 0; e < loads.size(); ++e)
    if (!killed || !killed[e]) directions[e] = static_cast<int>(loads[e] < mean) - static_cast<int>(loads[e] > mean);
  return directions;
}

}  // namespace moescope
