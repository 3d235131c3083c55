#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/frame/router_stats.h"
#include "core/recording/history/history.h"

namespace moescope {
namespace {

// 2 ranks on nodes of one, 4 tokens with 2 experts each.
VolumeFrame two_ranks() {
  VolumeFrame volume;
  volume.ranks = 2;
  volume.ranks_per_node = 1;
  volume.copies_RR = {3, 1, 3, 1};
  volume.distinct_RR = {2, 1, 2, 1};
  volume.nodes_RN = {2, 1, 2, 1};
  return volume;
}

TEST(VolumeStats, HandMadeCase) {
  EXPECT_FLOAT_EQ(ranks_per_token(two_ranks(), 4), 1.5f);
  EXPECT_FLOAT_EQ(nodes_per_token(two_ranks(), 4), 1.5f);
  EXPECT_FLOAT_EQ(rank_overload(two_ranks()), 6 / 4.0f);
  EXPECT_TRUE(is_missing(ranks_per_token({}, 4)));
  EXPECT_TRUE(is_missing(ranks_per_token(two_ranks(), 0)));
  EXPECT_TRUE(is_missing(rank_overload({})));
}

TEST(VolumeStats, DeepEpSavesCopiesOverTheNetwork) {
  VolumeFrame volume = two_ranks();
  EXPECT_DOUBLE_EQ(saved_by_deepep(volume), 1 - (1 + 2) / (1 + 3.0));
  volume.copies_RR = {300, 1, 3, 100};  // copies on the own rank do not count
  EXPECT_DOUBLE_EQ(saved_by_deepep(volume), 0.25);
  volume.ranks_per_node = 2;
  volume.nodes_RN = {2, 2};
  EXPECT_TRUE(std::isnan(saved_by_deepep(volume)));  // one node has no network
  EXPECT_TRUE(std::isnan(saved_by_deepep({})));
}

TEST(VolumeStats, AreScalarsOfTheHistory) {
  RunInfo info;
  info.tokens_per_step = 4;
  info.moe_layers = {1, 2};
  info.n_experts = 2;
  History history(info);
  auto frame = std::make_shared<TelemetryFrame>();
  frame->routers.resize(2);
  frame->routers[0].layer = 1;
  frame->routers[0].volume = two_ranks();
  frame->routers[1].layer = 2;
  frame->routers[1].volume = two_ranks();
  frame->routers[1].volume.copies_RR = {2, 2, 2, 2};
  frame->routers[1].mutual_information = 0.25f;
  history.append(frame);
  EXPECT_FLOAT_EQ(history.value_at(Metric::rank_overload, 1, 0), 1.5f);
  EXPECT_FLOAT_EQ(history.value_at(Metric::rank_overload, 2, 0), 1);
  EXPECT_FLOAT_EQ(history.value_at(Metric::rank_overload, kWholeRun, 0), 1.25f);
  EXPECT_FLOAT_EQ(history.value_at(Metric::ranks_per_token, 2, 0), 1.5f);
  EXPECT_FLOAT_EQ(history.value_at(Metric::nodes_per_token, kWholeRun, 0), 1.5f);
  EXPECT_FLOAT_EQ(history.value_at(Metric::mutual_information, kWholeRun, 0), 0.25f);
}

TEST(MutualInformation, IsWhatTheTokenSaysAboutTheExpert) {
  // Two tokens that are each certain of another expert: ln 2. The same token twice: 0.
  EXPECT_NEAR(mutual_information(std::vector<float>{0.5f, 0.5f}, 0), std::log(2.0f), 1e-6);
  const std::vector<float> scores{0.9f, 0.1f};
  EXPECT_NEAR(mutual_information(scores, score_entropy(scores)), 0, 1e-6);
  EXPECT_TRUE(is_missing(mutual_information({}, 0.5f)));
}

}  // namespace
}  // namespace moescope
