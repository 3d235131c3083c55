#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/cluster/published_runs.h"
#include "core/cluster/ranks/routing_patterns.h"
#include "core/cluster/timeline.h"

namespace moescope {
namespace {

constexpr std::int64_t kTokens = 65536;

VolumeFrame volume_of(const RoutingPattern& pattern, const ModelShape& shape, int ranks) {
  const int top_k = static_cast<int>(shape.top_k), n_experts = static_cast<int>(shape.n_experts);
  return count_volumes(route_by_pattern(pattern, kTokens, top_k, n_experts), top_k, n_experts, ranks, 8);
}

double part(const StepTime& time, std::string_view name) {
  for (const StepPart& p : time.parts)
    if (p.name == name) return p.ms;
  return 0;
}

// With forced routing all ranks do the same, so that the timeline must add up to the parts of the step model.
TEST(Timeline, AddsUpToTheStepModelUnderForcedRouting) {
  for (const AllToAll kind : {AllToAll::standard, AllToAll::deep_ep}) {
    for (const bool mxfp8 : {false, true}) {
      StepConfig config = published_b200_config(mxfp8, kind);
      config.recompute = Recompute::none;
      const StepParameters parameters = fit_to_published(Hypothesis::h2);
      const LayerTimeline timeline = layer_timeline(
          config, parameters, volume_of({RoutingRule::round_robin}, config.shape, config.traffic.ranks), kTokens);
      const StepTime step = step_time(config, parameters);
      const double per_token = timeline.total_us / 1e3 * static_cast<double>(config.shape.n_moe_layers()) * config.tp /
                               static_cast<double>(config.seq);
      const double parts = part(step, "routed experts") + part(step, "quantization") + part(step, "all-to-all") +
                           part(step, "all-to-all latency");
      EXPECT_NEAR(per_token, parts, 1e-9 * parts);
      EXPECT_NEAR(timeline.waiting_share, 0, 1e-12);
    }
  }
}

TEST(Timeline, AHotRankMakesTheOthersWait) {
  const StepConfig config = published_b200_config(false, AllToAll::deep_ep);
  const VolumeFrame volume = volume_of({RoutingRule::zipf, 8, 4, 1.0}, config.shape, 32);
  const LayerTimeline timeline = layer_timeline(config, fit_to_published(Hypothesis::h2), volume, kTokens);
  EXPECT_GT(timeline.waiting_share, 0.1);
  std::map<int, double> end;
  for (const RankInterval& interval : timeline.intervals) {
    EXPECT_DOUBLE_EQ(interval.from_us, end[interval.rank]);
    end[interval.rank] = interval.to_us;
  }
  ASSERT_EQ(end.size(), 32u);
  for (const auto& [rank, us] : end) EXPECT_DOUBLE_EQ(us, timeline.total_us) << rank;
}

// A reader that shares no code with the writer checks the rules of the format.
TEST(Timeline, TraceIsReadByPython) {
  if (std::system("command -v python3 > /dev/null") != 0) GTEST_SKIP() << "python3 is not installed";
  const StepConfig config = published_b200_config(true, AllToAll::deep_ep);
  const LayerTimeline timeline = layer_timeline(config, fit_to_published(Hypothesis::h2),
                                                volume_of({RoutingRule::zipf, 8, 4, 0.7}, config.shape, 32), kTokens);
  const auto file = std::filesystem::temp_directory_path() / ("moescope_trace_" + std::to_string(::getpid()) + ".json");
  std::ofstream(file) << to_chrome_trace(timeline, "671B");
  FILE* pipe =
      ::popen(("python3 '" MOESCOPE_TEST_DATA "/read_exports.py' trace '" + file.string() + "' 2>&1").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
  ASSERT_EQ(::pclose(pipe), 0) << output;
  std::filesystem::remove(file);
  const nlohmann::json read = nlohmann::json::parse(output);
  EXPECT_EQ(read["lanes"], 32);
  EXPECT_EQ(read["counts"]["M"], 33);
  EXPECT_EQ(read["counts"]["X"], timeline.intervals.size());
  for (const char* name : {"dispatch", "experts", "combine"}) EXPECT_EQ(read["names"][name], 64) << name;
  EXPECT_LE(read["overlap_us"].get<double>(), 1e-6);
  EXPECT_NEAR(read["end_us"].get<double>(), timeline.total_us, 1e-3);
}

TEST(LiveCost, EqualLoadsUnderUniformRoutingAreTheKnownDispersion) {
  const StepConfig config = published_b200_config(true, AllToAll::deep_ep);
  const LiveCase cases[] = {{32, false}, {32, true}};
  const std::vector<LiveCost> costs = live_costs(config, Hypothesis::h2, {}, cases);
  // 3.61 of 4 nodes hold a chosen expert without groups, 2.93 with 4 of 8 groups; three quarters of them are others.
  EXPECT_NEAR(costs[0].traffic.network, 3.61 * 0.75, 0.02);
  EXPECT_NEAR(costs[1].traffic.network, 2.93 * 0.75, 0.02);
  EXPECT_NEAR(costs[0].forced_tokens_per_second, 918, 1);
  for (const LiveCost& cost : costs) EXPECT_LT(cost.tokens_per_second, 918);
  EXPECT_GT(costs[1].tokens_per_second, costs[0].tokens_per_second);
}

TEST(LiveCost, ImbalanceCostsAndTheBalancerHelps) {
  const StepConfig config = published_b200_config(true, AllToAll::deep_ep);
  const std::vector<double> skewed =
      stretch_load(std::vector<std::uint32_t>{900, 300, 200, 150, 100, 80, 60, 10}, to_int(config.shape.n_experts));
  const LiveCase cases[] = {{32}, {32, false, true}, {32, false, true, AllToAll::deep_ep, Payload::mxfp8}};
  const std::vector<LiveCost> uneven = live_costs(config, Hypothesis::h2, skewed, cases);
  const std::vector<LiveCost> even = live_costs(config, Hypothesis::h2, {}, cases);
  EXPECT_GT(uneven[0].traffic.expert_rows_max_over_mean, 1.3);
  EXPECT_LT(uneven[0].tokens_per_second, even[0].tokens_per_second);
  EXPECT_LT(uneven[1].traffic.expert_rows_max_over_mean, 1.1);
  EXPECT_EQ(uneven[0].gradients_sent, 0);
  EXPECT_GT(uneven[1].gradients_sent, 0);
  EXPECT_LE(uneven[1].gradients_sent, 32) << "one more slot a rank";
  EXPECT_GT(uneven[1].tokens_per_second, uneven[0].tokens_per_second);
  EXPECT_GT(uneven[2].tokens_per_second, uneven[1].tokens_per_second);
  for (const LiveCost& cost : uneven) {
    EXPECT_LE(cost.band.low, cost.tokens_per_second);
    EXPECT_GE(cost.band.high, cost.tokens_per_second);
    EXPECT_GT(cost.lost(), 0);
  }
}

TEST(LiveCost, DegreesThatDivide) {
  EXPECT_EQ(possible_ep(published_b200_config(true, AllToAll::deep_ep)), (std::vector<int>{8, 16, 32, 64, 128}));
  const LiveCase bad[] = {{24}};
  EXPECT_THROW(live_costs(published_b200_config(true, AllToAll::deep_ep), Hypothesis::h2, {}, bad), std::runtime_error);
}

}  // namespace
}  // namespace moescope
