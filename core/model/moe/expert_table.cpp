#include "core/model/moe/expert_table.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "core/numerics/rng.h"
#include "core/numerics/size.h"

namespace moescope {

ExpertTable::ExpertTable(std::int64_t seed, int layer, int vocab, int n_experts, int top_k) : top_k_(top_k) {
  const RandomStream random(seed, "router.expert_table." + std::to_string(layer));
  std::vector<double> drawn(n_experts);
  std::vector<std::int32_t> order(n_experts);
  for (int v = 0; v < vocab; ++v) {
    for (std::size_t e = 0; e < drawn.size(); ++e) drawn[e] = random.uniform(size(v) * drawn.size() + e);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](std::int32_t e) { return drawn[e]; });
    std::sort(order.begin(), order.begin() + top_k);
    rows_.insert(rows_.end(), order.begin(), order.begin() + top_k);
  }
}

void ExpertTable::look_up(std::span<const std::int32_t> tokens, std::vector<std::int32_t>& ids) const {
  ids.clear();
  for (const std::int32_t token : tokens) {
    const auto row = rows_.begin() + static_cast<std::ptrdiff_t>(size(token) * size(top_k_));
    ids.insert(ids.end(), row, row + top_k_);
  }
}

}  // namespace moescope
