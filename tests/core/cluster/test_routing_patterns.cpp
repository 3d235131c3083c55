#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/cluster/ranks/routing_patterns.h"
#include "core/cluster/ranks/volumes.h"

namespace moescope {
namespace {

struct PerToken {
  double ranks, nodes;
  double standard_bytes, standard_network, standard_nvlink, deep_ep_network, deep_ep_nvlink;  // one operation, BF16
};

// The 671B model: 256 experts, top 8, rows of 7168, on 32 ranks in nodes of 8.
PerToken on_32_ranks(const char* rule, int ranks_per_node = 8) {
  const std::int64_t tokens = 32 * 1024;
  const auto topk = route_by_pattern(parse_routing_pattern(rule), tokens, 8, 256);
  const VolumeFrame volume = count_volumes(topk, 8, 256, 32, ranks_per_node);
  const double row = static_cast<double>(bytes_per_token(Payload::bf16, 7168));
  const auto mean = [&](const auto& values) { return std::accumulate(values.begin(), values.end(), 0.0) / tokens; };
  const LinkCopies standard = total(copies_by_link(volume, AllToAll::standard));
  const LinkCopies deep_ep = total(copies_by_link(volume, AllToAll::deep_ep));
  EXPECT_EQ(standard.network_in, standard.network_out);
  EXPECT_EQ(deep_ep.network_in, deep_ep.network_out);
  EXPECT_EQ(deep_ep.nvlink_in, deep_ep.nvlink_out);
  return {mean(volume.distinct_RR),
          mean(volume.nodes_RN),
          mean(volume.copies_RR) * row,
          static_cast<double>(standard.network_out) * row / tokens,
          static_cast<double>(standard.nvlink_out) * row / tokens,
          static_cast<double>(deep_ep.network_out) * row / tokens,
          static_cast<double>(deep_ep.nvlink_out) * row / tokens};
}

TEST(RoutingPatterns, WorkedFiguresOfForcedRoundRobin) {
  const PerToken forced = on_32_ranks("forced");
  EXPECT_EQ(forced.ranks, 1);
  EXPECT_EQ(forced.nodes, 1);
  EXPECT_EQ(forced.standard_bytes, 114688);
  EXPECT_EQ(forced.standard_network, 86016);
  EXPECT_EQ(forced.standard_nvlink, 25088);
  EXPECT_EQ(forced.deep_ep_network, 10752);
}

TEST(RoutingPatterns, WorkedFiguresOfGroupedAndUniform) {
  const PerToken grouped = on_32_ranks("grouped:4/8"), uniform = on_32_ranks("uniform");
  EXPECT_NEAR(grouped.nodes, 2.93, 0.01);
  EXPECT_NEAR(grouped.ranks, 6.59, 0.02);
  EXPECT_NEAR(grouped.deep_ep_network, 31460, 150);
  EXPECT_NEAR(uniform.nodes, 3.61, 0.01);
  EXPECT_NEAR(uniform.ranks, 7.27, 0.02);
  EXPECT_NEAR(uniform.deep_ep_network, 38860, 150);
  EXPECT_NEAR(uniform.standard_network, 86016, 300);
  EXPECT_EQ(uniform.standard_bytes, 114688);
}

TEST(RoutingPatterns, PayloadOfAToken) {
  EXPECT_EQ(bytes_per_token(Payload::bf16, 7168), 14336);
  EXPECT_EQ(bytes_per_token(Payload::fp8, 7168), 7392);
  EXPECT_EQ(bytes_per_token(Payload::mxfp8, 7168), 7392);
  EXPECT_EQ(bytes_per_token(Payload::mxfp8, 33), 35);
  EXPECT_EQ(all_to_all_ops(Payload::bf16, true).size(), 6u);
  EXPECT_EQ(all_to_all_ops(Payload::bf16, false).size(), 4u);
  const auto shrunk = [](Payload payload) {
    int count = 0;
    for (const AllToAllOp& op : all_to_all_ops(payload, false)) count += op.payload != Payload::bf16;
    return count;
  };
  EXPECT_EQ(shrunk(Payload::mxfp8), 2);  // dispatch forward and combine backward
  EXPECT_EQ(shrunk(Payload::fp8), 1);
}

// Compares links with their definition, token by token, for nodes of several sizes. The last node is not always full.
TEST(RoutingPatterns, LinksAgreeWithTheDefinition) {
  for (const auto& [ranks, per_node] : {std::pair{8, 8}, {8, 1}, {6, 4}, {12, 5}, {16, 2}}) {
    const int n_experts = ranks * 2, top_k = 4, tokens = 40 * ranks;
    const auto topk = route_by_pattern({RoutingRule::uniform}, tokens, top_k, n_experts, ranks);
    const VolumeFrame volume = count_volumes(topk, top_k, n_experts, ranks, per_node);
    std::vector<LinkCopies> expected(ranks);
    for (int t = 0; t < tokens; ++t) {
      const int source = t / 40, own_node = source / per_node;
      std::set<int> to;
      for (int k = 0; k < top_k; ++k) to.insert(topk[t * top_k + k] / 2);
      std::set<int> nodes;
      for (const int rank : to) nodes.insert(rank / per_node);
      for (const int node : nodes) {
        const int size = std::min(per_node, ranks - node * per_node);
        const int entry = node == own_node ? source : node * per_node + (source % per_node) % size;
        if (node != own_node) {
          ++expected[source].network_out;
          ++expected[entry].network_in;
        }
        for (const int rank : to) {
          if (rank / per_node != node) continue;
          if (rank == entry) {
            ++expected[rank].local;
          } else {
            ++expected[entry].nvlink_out;
            ++expected[rank].nvlink_in;
          }
        }
      }
    }
    const auto counted = copies_by_link(volume, AllToAll::deep_ep);
    for (int r = 0; r < ranks; ++r) {
      EXPECT_EQ(counted[r].local, expected[r].local) << ranks << " " << per_node << " " << r;
      EXPECT_EQ(counted[r].nvlink_out, expected[r].nvlink_out) << ranks << " " << per_node << " " << r;
      EXPECT_EQ(counted[r].nvlink_in, expected[r].nvlink_in) << ranks << " " << per_node << " " << r;
      EXPECT_EQ(counted[r].network_out, expected[r].network_out) << ranks << " " << per_node << " " << r;
      EXPECT_EQ(counted[r].network_in, expected[r].network_in) << ranks << " " << per_node << " " << r;
    }
  }
}

TEST(RoutingPatterns, ChoicesAreDistinctValidAndRepeatable) {
  for (const char* rule : {"forced", "uniform", "grouped:2/4", "zipf:0", "zipf:1.2", "zipf:8"}) {
    const RoutingPattern pattern = parse_routing_pattern(rule);
    const auto topk = route_by_pattern(pattern, 300, 6, 16, 9);
    ASSERT_EQ(topk.size(), 1800u);
    for (int t = 0; t < 300; ++t) {
      const std::set<std::int32_t> chosen(topk.begin() + t * 6, topk.begin() + t * 6 + 6);
      EXPECT_EQ(chosen.size(), 6u) << rule;
      EXPECT_GE(*chosen.begin(), 0);
      EXPECT_LT(*chosen.rbegin(), 16);
    }
    EXPECT_EQ(topk, route_by_pattern(pattern, 300, 6, 16, 9)) << rule;
    EXPECT_EQ(routing_pattern_name(parse_routing_pattern(routing_pattern_name(pattern))),
              routing_pattern_name(pattern));
  }
  EXPECT_NE(route_by_pattern({RoutingRule::uniform}, 300, 6, 16, 1),
            route_by_pattern({RoutingRule::uniform}, 300, 6, 16, 2));
}

TEST(RoutingPatterns, ZipfHasItsPopularities) {
  const int n_experts = 64;
  const auto chosen = route_by_pattern(parse_routing_pattern("zipf:1"), 200000, 1, n_experts);
  std::vector<double> count(n_experts);
  for (const std::int32_t expert : chosen) ++count[expert];
  std::ranges::sort(count, std::greater{});
  double total = 0;
  for (int i = 0; i < n_experts; ++i) total += 1.0 / (i + 1);
  for (const int i : {0, 1, 3, 9}) EXPECT_NEAR(count[i] / 200000, 1 / ((i + 1) * total), 0.004) << i;
}

TEST(RoutingPatterns, RefusesWhatCannotBe) {
  for (const char* text :
       {"", "even", "grouped:", "grouped:x", "grouped:2/", "zipf", "zipf:-1", "zipf:nan", "zipf:1x", "forced:2"})
    EXPECT_THROW(parse_routing_pattern(text), std::runtime_error) << text;
  EXPECT_THROW(route_by_pattern({RoutingRule::uniform}, 10, 9, 8), std::runtime_error);
  EXPECT_THROW(route_by_pattern(parse_routing_pattern("grouped:2/5"), 10, 2, 16), std::runtime_error);
  EXPECT_THROW(route_by_pattern(parse_routing_pattern("grouped:5/4"), 10, 2, 16), std::runtime_error);
  EXPECT_THROW(route_by_pattern(parse_routing_pattern("grouped:1/8"), 10, 4, 16), std::runtime_error);
  EXPECT_THROW(route_by_pattern(parse_routing_pattern("grouped:1/0"), 10, 4, 16), std::runtime_error);
}

}  // namespace
}  // namespace moescope
