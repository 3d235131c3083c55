// The verdict on routers that do not train: over all texts of a checkpoint, and over one domain.
#include <gtest/gtest.h>

#include "core/findings/health.h"
#include "tests/support/says.h"

namespace moescope {
namespace {

using Slots = std::vector<std::uint32_t>;

// Returns a run with one MoE layer, number 3, and the slots of its eight experts for each domain; top 2.
HistoryPtr counted(const std::vector<std::string>& domains, const std::vector<Slots>& domain_DE) {
  RunInfo info;
  info.name = "model";
  info.kernels = "AVX2";
  info.n_layers = 4;
  info.moe_layers = {3};
  info.n_experts = 8;
  info.top_k = 2;
  info.domains = domains;
  auto history = std::make_shared<History>(info);
  // Each of the two steps has half of the slots.
  for (int step = 0; step < 2; ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = step;
    RouterFrame& router = frame->routers.emplace_back();
    router.layer = 3;
    router.tokens_per_expert.assign(8, 1);
    SpecialisationFrame& table = frame->specialisation.emplace_back();
    table.layer = 3;
    table.experts = 8;
    for (const Slots& slots : domain_DE)
      for (const std::uint32_t n : slots) table.domain_DE.push_back(step == 0 ? n / 2 : n - n / 2);
    history->append(frame);
  }
  return history;
}

TEST(TextHealth, EvenOverAllTextsAndUnevenOnOne) {
  const HistoryPtr run =
      counted({"german", "python"}, {{10, 100, 100, 90, 100, 100, 100, 200}, {190, 0, 90, 110, 100, 100, 100, 110}});
  const Health all = judge_texts(*run);
  EXPECT_EQ(all.verdict, HealthVerdict::healthy) << all.sentence;
  EXPECT_EQ(
      all.sentence,
      "All texts: no expert is dead, starved or far too full. Most uneven: layer 3, where expert 7 gets 1.55 times "
      "its fair share.");
  const Health german = judge_texts(*run, 0);
  EXPECT_EQ(german.verdict, HealthVerdict::attention);
  EXPECT_EQ(german.sentence,
            "german: 1 of 1 MoE layers is uneven. Worst: layer 3, where expert 7 gets 2 times its fair "
            "share.");
  const Health python = judge_texts(*run, 1);
  EXPECT_EQ(python.verdict, HealthVerdict::attention);
  EXPECT_TRUE(says(python.sentence, "expert 0 gets 1.9 times its fair share and 1 of 8 gets none.")) << python.sentence;
  EXPECT_EQ(python.layer, 3);
  EXPECT_EQ(python.experts, std::vector<int>{0});
}

// The run of a checkpoint is judged without more steps; a training of two steps would be too young.
TEST(TextHealth, ACheckpointNeedsNoStepsToSettle) {
  const HistoryPtr run = counted({"a"}, {{100, 110, 90, 100, 100, 100, 100, 100}});
  FindingsScan scan(run);
  scan.advance(INT64_MAX);
  EXPECT_EQ(judge_health(scan).verdict, HealthVerdict::healthy);
}

TEST(TextHealth, TwoExpertsForEveryTokenIsACollapse) {
  const Health health = judge_texts(*counted({"a"}, {{400, 400, 0, 0, 0, 0, 0, 0}}));
  EXPECT_EQ(health.verdict, HealthVerdict::unhealthy);
  EXPECT_TRUE(says(health.sentence, "1 of 1 MoE layers has collapsed. Worst: layer 3, where expert 0 gets 4 times"))
      << health.sentence;
}

TEST(TextHealth, FewTokensAreNotJudged) {
  const Health health = judge_texts(*counted({"a"}, {{10, 10, 10, 10, 0, 10, 10, 10}}));
  EXPECT_EQ(health.verdict, HealthVerdict::unknown);
  EXPECT_TRUE(says(health.sentence, "a: too few tokens. About 80 are needed")) << health.sentence;
}

TEST(TextHealth, WithoutCountsNothingIsJudged) {
  RunInfo info;
  info.n_experts = 8;
  EXPECT_EQ(judge_texts(History(info)).verdict, HealthVerdict::unknown);
}

}  // namespace
}  // namespace moescope
