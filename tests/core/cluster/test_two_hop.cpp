// All-to-alls over nodes against those that go straight to their rank.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "core/cluster/ranks/two_hop.h"
#include "core/numerics/rng.h"
#include "tests/support/local_ranks.h"

namespace moescope {
namespace {

constexpr int kRanks = 4;

std::size_t part_bytes(int source, int destination) {
  return (7 * source + 3 * destination) % 5;  // some parts are empty
}

TEST(TwoHop, BytesArriveAsThoseThatGoStraight) {
  for (const int per_node : {1, 2, 4})
    run_local_ranks(kRanks, per_node, true, [&](Ranks& ranks) {
      std::vector<std::size_t> to, from;
      for (int other = 0; other < kRanks; ++other) {
        to.push_back(part_bytes(ranks.rank(), other));
        from.push_back(part_bytes(other, ranks.rank()));
      }
      const Ranks::Parts sent(to), received(from);
      std::string bytes(sent.total, '\0'), straight(received.total, '\1'), over_nodes(received.total, '\2');
      for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<char>(50 * ranks.rank() + static_cast<int>(i));
      ranks.all_to_all(bytes.data(), sent, straight.data(), received);
      all_to_all_over_nodes(ranks, bytes.data(), sent, over_nodes.data(), received);
      EXPECT_EQ(over_nodes, straight) << per_node << " ranks a node, rank " << ranks.rank();
    });
}

// Tokens with three of eight experts, two experts on each rank, two ranks on each node.
class MergedRows : public testing::Test {
 protected:
  static constexpr int kTokens = 20, kTopK = 3, kExperts = 8, kExpertsPerRank = kExperts / kRanks;

  static std::vector<std::int32_t> experts_of(int rank) {  // [T, K]; a copy is dropped now and then
    const RandomStream stream(rank, "experts");
    std::vector<std::int32_t> experts;
    for (int token = 0; token < kTokens; ++token) {
      std::set<std::int32_t> chosen;
      for (std::uint64_t draw = 0; chosen.size() < kTopK; ++draw)
        chosen.insert(static_cast<std::int32_t>(stream.uniform(100 * token + draw) * kExperts));
      experts.insert(experts.end(), chosen.begin(), chosen.end());
      if (token % 7 == 3) experts.back() = -1;
    }
    return experts;
  }
  static float row_of(int rank, int token) { return static_cast<float>(100 * rank + token); }
  // Counts the tokens of a rank that have an expert on a rank for which needs(rank) holds.
  template <class Needs>
  static std::size_t count_tokens(int source, Needs needs) {
    const std::vector<std::int32_t> experts = experts_of(source);
    std::size_t count = 0;
    for (int token = 0; token < kTokens; ++token) {
      const std::span<const std::int32_t> chosen(&experts[token * kTopK], kTopK);
      count += std::ranges::any_of(chosen, [&](std::int32_t e) { return e >= 0 && needs(e / kExpertsPerRank); });
    }
    return count;
  }
};

TEST_F(MergedRows, ArriveByExpertInTheOrderOfTheBatch) {
  run_local_ranks(kRanks, 2, true, [](Ranks& ranks) {
    std::vector<float> expected, rows;
    for (int expert = ranks.rank() * kExpertsPerRank; expert < (ranks.rank() + 1) * kExpertsPerRank; ++expert)
      for (int source = 0; source < kRanks; ++source) {
        const std::vector<std::int32_t> experts = experts_of(source);
        for (int i = 0; i < kTokens * kTopK; ++i)
          if (experts[i] == expert) expected.push_back(row_of(source, i / kTopK));
      }
    for (int token = 0; token < kTokens; ++token) rows.push_back(row_of(ranks.rank(), token));
    MergedDispatch dispatch;
    dispatch.plan(ranks, experts_of(ranks.rank()), kTopK, kExperts);
    std::vector<float> arrived(expected.size());
    dispatch.send(rows.data(), sizeof(float), arrived.data());
    EXPECT_EQ(arrived, expected) << ranks.rank();
  });
}

TEST_F(MergedRows, AreSentOncePerNodeAndOncePerRank) {
  run_local_ranks(kRanks, 2, true, [](Ranks& ranks) {
    const int me = ranks.rank(), neighbour = me ^ 1, partner = me ^ 2;
    MergedDispatch dispatch;
    dispatch.plan(ranks, experts_of(me), kTopK, kExperts);
    std::vector<float> rows(kTokens), arrived(kRanks * kTokens * kTopK);
    ranks.take_traffic();
    dispatch.send(rows.data(), sizeof(float), arrived.data());
    const std::vector<std::uint64_t> sent = ranks.take_traffic().sent;
    EXPECT_EQ(sent[partner], sizeof(float) * count_tokens(me, [&](int rank) { return rank / 2 != me / 2; }));
    EXPECT_EQ(sent[partner ^ 1], 0u) << "the partner hands it on";
    const auto needs_neighbour = [&](int rank) { return rank == neighbour; };
    EXPECT_EQ(sent[neighbour],
              sizeof(float) * (count_tokens(me, needs_neighbour) + count_tokens(partner, needs_neighbour)));
  });
}

}  // namespace
}  // namespace moescope
