// Joins the loads that ranks and microbatches log.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/logs/runs/run_builder.h"

namespace moescope {

static constexpr std::string_view kAddedLoads = "; their loads are added";

// True if a record of another rank or microbatch came before at this step, so that their loads are added.
bool RunBuilder::is_further_part(int part, int layer, std::int64_t step) {
  if (part < 0) return false;
  if (std::exchange(parts_step_, step) != step) parts_.clear();
  const bool is_new = parts_.emplace(layer, part).second;
  parts_of_layer_ = std::ranges::count(parts_, layer, &std::pair<int, int>::first);
  return is_new && parts_of_layer_ > 1;
}

// Returns how many ranks have the experts of a layer together: each logs `experts` of those that are stated.
std::size_t RunBuilder::ranks_of_list(std::size_t experts) const {
  const std::size_t stated_experts = std::max(stated.info.n_experts, log_->options.routed.experts);
  return rank_ && experts > 0 && stated_experts % experts == 0 ? std::max<std::size_t>(1, stated_experts / experts) : 1;
}

void RunBuilder::set_counts(Step& step, int layer, std::span<const std::uint32_t> counts) {
  std::vector<std::uint32_t> of_all_ranks;
  if (const std::size_t ranks = ranks_of_list(counts.size()); ranks > 1) {
    of_all_ranks.resize(ranks * counts.size());
    std::ranges::copy(counts, of_all_ranks.begin() + std::ssize(counts) * (rank_number_ % ranks));
    counts = of_all_ranks;
    loads_of_ranks_ = "; each has other experts";
  }
  std::vector<std::uint32_t>& of_router = router_at(step.frame.routers, layer).tokens_per_expert;
  if (counts.size() > of_router.size()) keep(sizeof(std::uint32_t) * (counts.size() - of_router.size()));
  RankLoads* const loads = rank_ ? &step.ranks[layer] : nullptr;
  const std::uint64_t tokens = loads ? std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}) : 0;
  if (!is_added_ || of_router.size() != counts.size()) {
    if (loads) loads->tokens = tokens;
    return of_router.assign(counts.begin(), counts.end());
  }
  if (loads && loads->copies >= 0 && loads_of_ranks_ != kAddedLoads && std::ranges::equal(of_router, counts)) {
    ++loads->copies;
    if (loads_of_ranks_.empty()) loads_of_ranks_ = "; all have the same loads, which are not added";
    return AccountBook::leave_out(rank_->counts, "ranks with the same loads: those of one are read");
  }
  if (loads && tokens != loads->tokens) differing_ranks_ = std::max(differing_ranks_, parts_of_layer_);
  const std::uint32_t times = loads ? std::max(0, loads->copies) + 1 : 1;  // the loads of the copies count now
  if (loads) loads->copies = -1;
  if (of_all_ranks.empty()) loads_of_ranks_ = kAddedLoads;
  for (std::size_t e = 0; e < counts.size(); ++e) of_router[e] = of_router[e] * times + counts[e];
}

std::string RunBuilder::question_of_ranks() const {
  const bool is_stated = std::max(stated.info.n_experts, log_->options.routed.experts) > 0;
  if (differing_ranks_ == 0 || is_stated || !imported_) return {};
  const int experts = imported_->info().n_experts;
  return fmt::format(
      "{} ranks have different numbers of tokens, and their {} loads are added: if each rank has other experts, there "
      "are {} (--experts)",
      differing_ranks_, experts, experts * differing_ranks_);
}

}  // namespace moescope
