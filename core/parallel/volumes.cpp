#include "core/parallel/volumes.h"

#include <cassert>
#include <vector>

namespace moescope {

VolumeFrame count_volumes(std::span<const std::int32_t> topk_TK, int top_k, int n_experts, int ranks,
                          int ranks_per_node) {
  assert(top_k > 0 && ranks > 0 && ranks_per_node > 0);
  assert(n_experts % ranks == 0 && topk_TK.size() % top_k == 0);
  const std::size_t tokens = topk_TK.size() / top_k;
  const std::size_t nodes = (ranks + ranks_per_node - 1) / ranks_per_node;

  VolumeFrame volume;
  volume.ranks = ranks;
  volume.ranks_per_node = ranks_per_node;
  volume.copies_RR.resize(static_cast<std::size_t>(ranks) * ranks);
  volume.distinct_RR.resize(volume.copies_RR.size());
  volume.nodes_RN.resize(ranks * nodes);

  std::vector<std::uint32_t> rank_of_expert(n_experts), node_of_rank(ranks);
  for (int e = 0; e < n_experts; ++e) rank_of_expert[e] = e / (n_experts / ranks);
  for (int r = 0; r < ranks; ++r) node_of_rank[r] = r / ranks_per_node;

  // The last token (plus one) that went to each rank and node: tells a first copy from a repeated one with nothing to
  // clear between tokens.
  std::vector<std::size_t> seen_rank(ranks), seen_node(nodes);
  std::size_t t = 0;
  for (std::size_t source = 0; source < static_cast<std::size_t>(ranks); ++source) {
    std::uint32_t* copies = volume.copies_RR.data() + source * ranks;
    std::uint32_t* distinct = volume.distinct_RR.data() + source * ranks;
    std::uint32_t* to_nodes = volume.nodes_RN.data() + source * nodes;
    // t * R / T == source  <=>  t < ceil((source + 1) T / R)
    const std::size_t end = ((source + 1) * tokens + ranks - 1) / ranks;
    for (; t < end; ++t) {
      const std::int32_t* chosen = topk_TK.data() + t * top_k;
      for (int k = 0; k < top_k; ++k) {
        assert(chosen[k] >= 0 && chosen[k] < n_experts);
        const std::uint32_t rank = rank_of_expert[chosen[k]];
        const std::uint32_t node = node_of_rank[rank];
        ++copies[rank];
        distinct[rank] += seen_rank[rank] != t + 1;
        seen_rank[rank] = t + 1;
        to_nodes[node] += seen_node[node] != t + 1;
        seen_node[node] = t + 1;
      }
    }
  }
  return volume;
}

}  // namespace moescope
