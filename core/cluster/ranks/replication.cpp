#include "core/cluster/ranks/replication.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "core/numerics/size.h"

namespace moescope {
namespace {

// Returns for each expert the ranks that hold it, ascending, each once.
std::vector<std::vector<std::int32_t>> ranks_of_experts(const Placement& placement) {
  std::vector<std::vector<std::int32_t>> ranks(size(placement.n_experts()));
  for (std::size_t e = 0; e < ranks.size(); ++e) {
    const auto begin = placement.replica_rank.begin();
    ranks[e].assign(begin + placement.first_replica[e], begin + placement.first_replica[e + 1]);
    std::ranges::sort(ranks[e]);
    ranks[e].erase(std::unique(ranks[e].begin(), ranks[e].end()), ranks[e].end());
  }
  return ranks;
}

}  // namespace

void LoadPlanner::count_step(std::int64_t step, int replan_every, std::span<const std::uint32_t> tokens_per_expert) {
  load_since_plan.resize(tokens_per_expert.size());
  for (std::size_t e = 0; e < load_since_plan.size(); ++e) load_since_plan[e] += tokens_per_expert[e];
  if ((step + 1) % replan_every == 0) planned_of = std::exchange(load_since_plan, {});
}

int experts_sent(const Placement& from, const Placement& to) {
  assert(from.n_experts() == to.n_experts() && from.ranks == to.ranks);
  const auto before = ranks_of_experts(from), after = ranks_of_experts(to);
  int sent = 0;
  for (std::size_t e = 0; e < after.size(); ++e)
    for (const std::int32_t rank : after[e]) sent += !std::ranges::binary_search(before[e], rank);
  return sent;
}

int gradients_sent(const Placement& placement) {
  int sent = 0;
  for (const auto& ranks : ranks_of_experts(placement)) sent += static_cast<int>(ranks.size()) - 1;
  return sent;
}

}  // namespace moescope
