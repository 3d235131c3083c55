#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

#include "core/cluster/ranks/volumes.h"

namespace moescope {
namespace {

std::uint64_t sum(const std::vector<std::uint32_t>& v) {
  return std::accumulate(v.begin(), v.end(), std::uint64_t{0});
}

std::vector<std::int32_t> round_robin(int tokens, int top_k, int n_experts) {
  std::vector<std::int32_t> topk(static_cast<std::size_t>(tokens) * top_k);
  for (std::size_t i = 0; i < topk.size(); ++i) topk[i] = static_cast<std::int32_t>(i % n_experts);
  return topk;
}

std::vector<std::int32_t> random_routing(std::mt19937& rng, int tokens, int top_k, int n_experts) {
  std::vector<std::int32_t> topk, ids(n_experts);
  std::iota(ids.begin(), ids.end(), 0);
  for (int t = 0; t < tokens; ++t) {
    for (int k = 0; k < top_k; ++k) {
      std::swap(ids[k], ids[k + rng() % (n_experts - k)]);
      topk.push_back(ids[k]);
    }
  }
  return topk;
}

TEST(Volumes, AgreesWithTheDefinition) {
  std::mt19937 rng(5);
  struct Case {
    int tokens, top_k, n_experts, ranks, per_node;
  };
  for (const Case c : {Case{100, 2, 16, 8, 8},
                       {97, 3, 12, 4, 2},
                       {61, 6, 64, 16, 4},
                       {5, 4, 32, 32, 8},
                       {64, 1, 8, 1, 1},
                       {50, 2, 12, 6, 4}}) {
    const auto topk = random_routing(rng, c.tokens, c.top_k, c.n_experts);
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

// The forced balance of the published runs: token t uses experts (tK .. tK + K - 1) mod E. With 8 experts a rank and K
// = 8 all copies of a token go to one rank, so that a standard all-to-all sends 8 times as much as DeepEP.
TEST(Volumes, ForcedRoundRobinGoesToOneRank) {
  const int tokens = 4096;
  const VolumeFrame v = count_volumes(round_robin(tokens, 8, 256), 8, 256, 32, 8);
  EXPECT_EQ(sum(v.copies_RR), 8u * tokens);
  EXPECT_EQ(sum(v.distinct_RR), 1u * tokens);
  EXPECT_EQ(sum(v.nodes_RN), 1u * tokens);
}

// The 16B shape has K = 6 and 2 experts a rank: a token goes to 3 ranks and, on average, 1.25 nodes.
TEST(Volumes, ForcedRoundRobinOfThe16BShape) {
  const int tokens = 64 * 32 * 3;
  const VolumeFrame v = count_volumes(round_robin(tokens, 6, 64), 6, 64, 32, 8);
  EXPECT_EQ(sum(v.distinct_RR), 3u * tokens);
  EXPECT_EQ(sum(v.nodes_RN), 5u * tokens / 4);
}

// With a uniform choice of 8 out of 256 experts over 32 ranks in 4 nodes, a token goes to 7.27 ranks and 3.61 nodes.
TEST(Volumes, UniformRoutingTouchesTheExpectedRanks) {
  std::mt19937 rng(1);
  const int tokens = 20000;
  const VolumeFrame v = count_volumes(random_routing(rng, tokens, 8, 256), 8, 256, 32, 8);
  EXPECT_NEAR(static_cast<double>(sum(v.distinct_RR)) / tokens, 7.27, 0.02);
  EXPECT_NEAR(static_cast<double>(sum(v.nodes_RN)) / tokens, 3.61, 0.02);
}

TEST(Volumes, BytesPerToken) {
  EXPECT_EQ(bytes_per_token(Payload::bf16, 7168), 14336);
  EXPECT_EQ(bytes_per_token(Payload::fp8, 7168), 7392);
  EXPECT_EQ(bytes_per_token(Payload::mxfp8, 7168), 7392);
  EXPECT_EQ(bytes_per_token(Payload::mxfp8, 33), 35);
  EXPECT_EQ(8 * bytes_per_token(Payload::bf16, 7168), 114688);  // standard dispatch of a token, top 8
}

}  // namespace
}  // namespace moescope
