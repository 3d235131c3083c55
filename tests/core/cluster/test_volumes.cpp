#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "core/cluster/ranks/routing_patterns.h"
#include "core/cluster/ranks/volumes.h"

namespace moescope {
namespace {

std::uint64_t sum(const std::vector<std::uint32_t>& v) {
  return std::accumulate(v.begin(), v.end(), std::uint64_t{0});
}

TEST(Volumes, AgreesWithTheDefinition) {
  struct Case {
    int tokens, top_k, n_experts, ranks, per_node;
  };
  for (const Case c : {Case{100, 2, 16, 8, 8},
                       {97, 3, 12, 4, 2},
                       {61, 6, 64, 16, 4},
                       {5, 4, 32, 32, 8},
                       {64, 1, 8, 1, 1},
                       {50, 2, 12, 6, 4}}) {
    const auto topk = route_by_pattern({}, c.tokens, c.top_k, c.n_experts);
    const VolumeFrame v = count_volumes(topk, c.top_k, c.n_experts, c.ranks, c.per_node);
    const int nodes = (c.ranks + c.per_node - 1) / c.per_node;
    std::vector<std::uint32_t> copies(c.ranks * c.ranks), distinct(c.ranks * c.ranks), to_nodes(c.ranks * nodes);
    std::vector<std::uint32_t> to_experts(c.ranks * c.n_experts);
    for (int t = 0; t < c.tokens; ++t) {
      const int source = t * c.ranks / c.tokens;
      std::set<int> ranks, node_set;
      for (int k = 0; k < c.top_k; ++k) {
        const int rank = topk[t * c.top_k + k] / (c.n_experts / c.ranks);
        ++copies[source * c.ranks + rank];
        ++to_experts[source * c.n_experts + topk[t * c.top_k + k]];
        ranks.insert(rank);
        node_set.insert(rank / c.per_node);
      }
      for (const int r : ranks) ++distinct[source * c.ranks + r];
      for (const int n : node_set) ++to_nodes[source * nodes + n];
    }
    EXPECT_EQ(v.ranks, c.ranks);
    EXPECT_EQ(v.ranks_per_node, c.per_node);
    EXPECT_EQ(v.copies_RR, copies);
    EXPECT_EQ(v.distinct_RR, distinct);
    EXPECT_EQ(v.nodes_RN, to_nodes);
    EXPECT_EQ(count_by_expert(topk, c.top_k, c.n_experts, c.ranks), to_experts);
  }
}

// The 16B shape has K = 6 and 2 experts a rank: a token goes to 3 ranks and, on average, 1.25 nodes.
TEST(Volumes, ForcedRoundRobinOfThe16BShape) {
  const int tokens = 64 * 32 * 3;
  const VolumeFrame v = count_volumes(route_by_pattern({RoutingRule::round_robin}, tokens, 6, 64), 6, 64, 32, 8);
  EXPECT_EQ(sum(v.distinct_RR), 3u * tokens);
  EXPECT_EQ(sum(v.nodes_RN), 5u * tokens / 4);
}

}  // namespace
}  // namespace moescope
