#include "core/model/moe/smebu.h"

#include <cassert>
#include <cmath>

#include "core/model/moe/router.h"

namespace moescope {

template <class T>
void update_by_smebu(const RouterConfig& config, std::span<const std::uint32_t> tokens_per_expert,
                     std::span<T> expert_bias, std::vector<T>& momentum, const std::uint8_t* killed) {
  assert(expert_bias.size() == tokens_per_expert.size());
  momentum.resize(expert_bias.size(), T{0});
  std::vector<double> steps = relative_shortfalls(tokens_per_expert, killed);
  double sum = 0;
  int living = 0;
  for (std::size_t e = 0; e < steps.size(); ++e) {
    if (killed && killed[e]) continue;
    steps[e] = config.bias_update_rate * std::tanh(config.bias_soft_clamp * steps[e]);
    sum += steps[e];
    ++living;
  }
  const double mean = config.bias_centring ? sum / living : 0;
  for (std::size_t e = 0; e < steps.size(); ++e) {
    if (killed && killed[e]) continue;
    const double kept = config.bias_momentum * static_cast<double>(momentum[e]);
    momentum[e] = static_cast<T>(kept + (1 - config.bias_momentum) * (steps[e] - mean));
    expert_bias[e] += momentum[e];
  }
}

template void update_by_smebu<float>(const RouterConfig&, std::span<const std::uint32_t>, std::span<float>,
                                     std::vector<float>&, const std::uint8_t*);
template void update_by_smebu<double>(const RouterConfig&, std::span<const std::uint32_t>, std::span<double>,
                                      std::vector<double>&, const std::uint8_t*);

}  // namespace moescope
