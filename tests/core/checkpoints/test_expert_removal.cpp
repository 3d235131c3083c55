// The loss of a checkpoint's predictions without each of its experts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/checkpoints/ablation/scans.h"
#include "tests/support/problem_of.h"
#include "tests/support/small_checkpoint.h"

namespace moescope {
namespace {

bool without_pause(int, int) {
  return true;
}

// Returns the experts that the tokens of a pass chose in the first MoE layer.
std::vector<std::int32_t> chosen(const CheckpointModel& model, const std::vector<std::int32_t>& ids) {
  return predict(model, ids).experts.front();
}

TEST(ExpertRemoval, NoTokenChoosesARemovedExpert) {
  const SmallCheckpoint folder("removed");
  CheckpointModel model(folder.path());
  const std::vector<std::int32_t> ids = SmallCheckpoint::some_ids(40), before = chosen(model, ids);
  ASSERT_NE(std::ranges::count(before, 2), 0);
  model.remove_expert(model.moe_layers().front(), 2);
  const std::vector<std::int32_t> without = chosen(model, ids);
  EXPECT_EQ(std::ranges::count(without, 2), 0);
  for (std::size_t t = 0; t < ids.size(); ++t) {  // tokens of other experts choose as before
    if (before[2 * t] == 2 || before[2 * t + 1] == 2) continue;
    EXPECT_EQ(without[2 * t], before[2 * t]);
    EXPECT_EQ(without[2 * t + 1], before[2 * t + 1]);
  }
  model.restore_experts();
  EXPECT_EQ(chosen(model, ids), before);
}

TEST(ExpertRemoval, EveryExpertHasItsCost) {
  const SmallCheckpoint folder("costs");
  CheckpointModel model(folder.path());
  const std::vector<LabelledText> texts = {{"a", SmallCheckpoint::some_ids(64)}};
  const ExpertScan scan = remove_each_expert(model, texts, {.length = 16, .pieces = 4}, without_pause);
  EXPECT_EQ(scan.pieces, 4);
  ASSERT_EQ(scan.experts.size(), SmallCheckpoint::kLayers * SmallCheckpoint::kExperts);
  double load = 0, last = 0;
  for (const ExpertCost& cost : scan.experts) {
    load += cost.load;
    EXPECT_GE(cost.divergence.mean, last);
    last = cost.divergence.mean;
    EXPECT_EQ(cost.load > 0, cost.divergence.mean > 0) << cost.layer << ' ' << cost.expert;
    EXPECT_EQ(cost.load > 0, cost.saliency > 0);
  }
  EXPECT_NEAR(load, static_cast<double>(scan.experts.size()), 1e-9);
  // The cost of one expert by hand: the change of the loss of the same pieces without it.
  const ExpertCost& cost = scan.experts.back();
  double change = 0;
  for (const auto& [text, piece] : pieces_of(texts, {.length = 16, .pieces = 4})) {
    const double whole = predict(model, piece).loss;
    model.remove_expert(cost.layer, cost.expert);
    change += (predict(model, piece).loss - whole) / 15 / 4;
    model.restore_experts();
  }
  EXPECT_NEAR(cost.loss_change.mean, change, 1e-9);
  EXPECT_GT(cost.loss_change.interval, 0);
}

TEST(ExpertRemoval, LossesByDomainMakeUpThatOfAllText) {
  const SmallCheckpoint folder("domains");
  CheckpointModel model(folder.path());
  std::vector<std::int32_t> other = SmallCheckpoint::some_ids(48);
  std::ranges::reverse(other);
  const std::vector<LabelledText> texts = {{"a", SmallCheckpoint::some_ids(32)}, {"b", other}, {"c", {1}}};
  const ExpertScan scan = remove_each_expert(model, texts, {.length = 16, .pieces = 5}, without_pause);
  EXPECT_EQ(scan.domains, (std::vector<std::string>{"a", "b"}));  // c has no piece
  for (const ExpertCost& cost : scan.experts) {
    ASSERT_EQ(cost.loss_by_domain.size(), 2u);
    // Two pieces of a, three of b.
    EXPECT_NEAR(cost.loss_change.mean, (2 * cost.loss_by_domain[0].mean + 3 * cost.loss_by_domain[1].mean) / 5, 1e-9);
  }
}

// One or two of the four experts of every layer are removed; top 2.
TEST(ExpertRemoval, SeveralExpertsAreRemovedInThreeWays) {
  const SmallCheckpoint folder("pruning");
  CheckpointModel model(folder.path());
  const std::vector<LabelledText> texts = {{"a", SmallCheckpoint::some_ids(64)}};
  const ComparedTexts which{.length = 16, .pieces = 4};
  int passes = 0, last = 0;
  const ExpertScan scan = remove_each_expert(model, texts, which, [&](int done, int total) {
    last = done;
    passes = total;
    return true;
  });
  EXPECT_EQ(last, passes);
  ASSERT_EQ(scan.pruning.size(), 2u);
  EXPECT_EQ(scan.pruning[0].removed, 1);
  EXPECT_EQ(scan.pruning[1].removed, 2);
  // Experts are ranked by hand on the first and the third piece, and measured on the others.
  const auto pieces = pieces_of(texts, which);
  std::vector<int> first(SmallCheckpoint::kLayers);
  for (std::size_t layer = 0; layer < first.size(); ++layer) {
    double lowest = INFINITY;
    for (int e = 0; e < static_cast<int>(SmallCheckpoint::kExperts); ++e) {
      double divergence = 0;
      for (const std::size_t piece : {0, 2}) {
        const Predictions whole = predict(model, pieces[piece].ids);
        model.remove_expert(static_cast<int>(layer), e);
        divergence += divergence_of(whole, predict(model, pieces[piece].ids)) / whole.tokens();
        model.restore_experts();
      }
      if (divergence < lowest) {
        lowest = divergence;
        first[layer] = e;
      }
    }
  }
  double change = 0;
  for (const std::size_t piece : {1, 3}) {
    const Predictions whole = predict(model, pieces[piece].ids);
    for (std::size_t layer = 0; layer < first.size(); ++layer)
      model.remove_expert(static_cast<int>(layer), first[layer]);
    change += (predict(model, pieces[piece].ids).loss - whole.loss) / whole.tokens() / 2;
    model.restore_experts();
  }
  EXPECT_NEAR(scan.pruning[0].by_divergence.mean, change, 1e-9);
  EXPECT_GT(scan.pruning[0].random.interval, 0);
}

TEST(ExpertRemoval, ARecordingKeepsTheScan) {
  const SmallCheckpoint folder("kept");
  CheckpointModel model(folder.path());
  const std::vector<LabelledText> texts = {{"a", SmallCheckpoint::some_ids(32)}, {"b", SmallCheckpoint::some_ids(9)}};
  const ExpertScan scan = remove_each_expert(model, texts, {.length = 16, .pieces = 3}, without_pause);
  const auto read = expert_scan_in(scan_json(scan));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->pieces, 3);
  EXPECT_EQ(read->domains, scan.domains);
  ASSERT_EQ(read->experts.size(), scan.experts.size());
  EXPECT_EQ(read->experts[1].saliency, scan.experts[1].saliency);
  EXPECT_EQ(read->experts[1].loss_by_domain[0].mean, scan.experts[1].loss_by_domain[0].mean);
  EXPECT_TRUE(std::isnan(read->experts[1].loss_by_domain[1].interval));  // one piece
  ASSERT_EQ(read->pruning.size(), scan.pruning.size());
  EXPECT_EQ(read->pruning[1].random.interval, scan.pruning[1].random.interval);
  EXPECT_FALSE(expert_scan_in("{\"pieces\": 3}"));
  EXPECT_FALSE(expert_scan_in("no JSON"));
}

// S_j = mean over its tokens of g_j |f_j|: an output projection twice as large doubles the saliency.
TEST(ExpertRemoval, SaliencyFollowsTheLengthOfTheOutput) {
  struct Norms : PassWatch {
    bool wants_output_norms() const override { return true; }
    void outputs(int, const RoutedTokens& tokens, std::span<const float> norm_TK) override {
      if (!norms.empty()) return;
      norms.assign(norm_TK.begin(), norm_TK.end());
      routed = tokens;
    }
    std::vector<float> norms;
    RoutedTokens routed;
  };
  const SmallCheckpoint folder("saliency");
  CheckpointModel model(folder.path());
  const std::vector<std::int32_t> ids = SmallCheckpoint::some_ids(30);
  Norms watch;
  model.forward(ids, 1, 30, watch);
  ASSERT_EQ(watch.norms.size(), 60u);
  const ExpertScan scan = remove_each_expert(model, {{"a", ids}}, {.length = 30, .pieces = 1}, without_pause);
  for (const ExpertCost& cost : scan.experts) {
    if (cost.layer != model.moe_layers().front()) continue;
    double sum = 0, slots = 0;
    for (std::size_t i = 0; i < 60; ++i)
      if (watch.routed.ids[i] == cost.expert) {
        sum += static_cast<double>(watch.norms[i]) * static_cast<double>(watch.routed.mix[i]);
        ++slots;
      }
    EXPECT_NEAR(cost.saliency, slots > 0 ? sum / slots : 0, 1e-6);
    EXPECT_TRUE(std::isnan(cost.loss_change.interval));
  }
}

TEST(ExpertRemoval, StoppedOrImpossible) {
  const SmallCheckpoint folder("impossible");
  {
    CheckpointModel model(folder.path());
    const std::vector<LabelledText> texts = {{"a", SmallCheckpoint::some_ids(16)}};
    EXPECT_TRUE(remove_each_expert(model, texts, {}, [](int done, int) { return done < 2; }).experts.empty());
  }
  folder.write_config({{"num_experts_per_tok", 4}});
  CheckpointModel model(folder.path());
  EXPECT_EQ(problem_of([&] {
              remove_each_expert(model, {{"a", SmallCheckpoint::some_ids(16)}}, {}, without_pause);
            }),
            "no expert can be removed: every token needs all of them");
}

}  // namespace
}  // namespace moescope
