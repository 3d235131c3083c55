// Names of the programs in assets/tags, in lines as these programs write them.
#include <gtest/gtest.h>

#include "core/logs/lines/import_jsonl.h"
#include "tests/support/problem_of.h"
#include "tests/support/says.h"

namespace moescope {
namespace {

struct Figure {
  Metric metric;
  float value;
};
struct ProgramLine {
  const char* line;
  std::vector<Figure> figures;
};

struct ReadLine : LogReader {
  explicit ReadLine(const std::string& line) : LogReader("here.jsonl") {
    read_line(line);
    finish_step();
  }
};

ReadLine read_line(const std::string& line) {
  return ReadLine(line);
}

TEST(ProgramNames, FiguresOfALineAreRead) {
  const std::vector<ProgramLine> lines = {
      {R"({"Train/Samples/train_loss":3,"Train/Samples/lr":0.5,"step":20})",
       {{Metric::ce_loss, 3}, {Metric::lr, 0.5f}}},
      {R"({"learning/loss":3.5,"learning/lm_loss":3,"learning/moe_lb_loss":0.25,"perf/per_device_tokens_per_sec":9,"step":20.0})",
       {{Metric::ce_loss, 3}, {Metric::aux_loss, 0.25f}, {Metric::tokens_per_s, 9}}},
      {R"({"loss/train/total":3.5,"metrics/train/LanguageCrossEntropy":3,"metrics/eval/LanguageCrossEntropy":2.5,"step":20})",
       {{Metric::ce_loss, 3}, {Metric::val_loss, 2.5f}}},
      {R"({"loss/train/total":3.5,"step":20})", {{Metric::ce_loss, 3.5f}}},
      {R"({"loss/mean":3,"optim/lr":0.5,"max_vio/mean":0.25,"max_vio/max":0.75,"step":20})",
       {{Metric::ce_loss, 3}, {Metric::lr, 0.5f}, {Metric::max_vio, 0.25f}}},
      {R"({"train_mean_nll":3,"test/nll":2.5,"e_frac_with_tokens:mean":0.75,"e_max_violation:mean":4,"step":20})",
       {{Metric::ce_loss, 3}, {Metric::val_loss, 2.5f}, {Metric::dead_fraction, 0.25f}, {Metric::max_vio, 4}}},
      {R"({"step":20,"loss":2.5,"moe/cv_mean":0.5,"moe/max_utilization_mean":1.5,"moe/dead_expert_frac_mean":0.25})",
       {{Metric::cv, 0.5f}, {Metric::max_vio, 0.5f}, {Metric::dead_fraction, 0.25f}}},
      {R"({"step":20,"train/CE loss":2.5,"train/load imbalance":1.5,"train/load balancing loss":0.25})",
       {{Metric::ce_loss, 2.5f}, {Metric::max_vio, 0.5f}, {Metric::aux_loss, 0.25f}}},
      {R"({"step":20,"loss":2.5,"expert_usage/normalized_entropy_mean":0.5,"expert_usage/active_fraction_mean":0.75})",
       {{Metric::entropy_norm, 0.5f}, {Metric::dead_fraction, 0.25f}}},
      {R"({"train/loss":3,"train/lr-pg_0":0.5,"train/step":20})", {{Metric::ce_loss, 3}, {Metric::lr, 0.5f}}},
      {R"({"train/loss":3,"grad/norm/total":0.5,"throughput/tokens_per_second":9,"step":20})",
       {{Metric::grad_norm, 0.5f}, {Metric::tokens_per_s, 9}}},
      {"Epoch:[1/2](20/45125), loss: 9.5, logits_loss: 9.0, aux_loss: 0.5, lr: 0.25",
       {{Metric::ce_loss, 9}, {Metric::aux_loss, 0.5f}, {Metric::lr, 0.25f}}},
      {"iteration: 20 / 100 | consumed_tokens: 32.8K | tokens_per_sec: 14K | lm_loss: 3.0 | lr: 0.5 | grad_norm: 1.5",
       {{Metric::ce_loss, 3}, {Metric::tokens_per_s, 14000}, {Metric::grad_norm, 1.5f}}},
      {"step 00020/21400 (0.05%) | loss: 3.000000 | lrm: 1.00 | dt: 480.11ms | tok/sec: 1,092,044 | mfu: 48.12",
       {{Metric::ce_loss, 3}, {Metric::tokens_per_s, 1092044}}},
      {"{ Epoch:[  1/  2], step:[   20/  100], loss: 11.25, per_step_time: 340ms, lr: 0.5, overflow cond: False",
       {{Metric::ce_loss, 11.25f}, {Metric::lr, 0.5f}}},
      {"Epoch [1/5], Step [20/600], Loss: 3.0", {{Metric::ce_loss, 3}}},
      {"[20]\ttrain-logloss:3.0\teval-logloss:2.5", {{Metric::ce_loss, 3}, {Metric::val_loss, 2.5f}}},
      {"[20]\ttraining's binary_logloss: 3.0\tvalid_1's binary_logloss: 2.5",
       {{Metric::ce_loss, 3}, {Metric::val_loss, 2.5f}}},
      {"2024-01-01 12:00:01,123 epoch 2 - iter 10/10 - loss 3.0 - lr: 0.5", {{Metric::ce_loss, 3}, {Metric::lr, 0.5f}}},
      {"INFO:root:[Epoch 1 Batch 10/10] loss 3.0, ppl 20.1", {{Metric::ce_loss, 3}}},
      {"Epoch 0:  20%|##  | 20/100 [00:10<00:50,  2.0it/s, loss=3.0]", {{Metric::ce_loss, 3}}},
      {"I0101 10:00:00.000000 140 logging_writer.py:48] [20] learning_rate=0.5, loss=3.0", {{Metric::ce_loss, 3}}},
      {"completed step: 20, seconds: 1.234, TFLOP/s/device: 311.2, Tokens/s/device: 3319.5, loss: 3.5, lm_loss: 3.25",
       {{Metric::ce_loss, 3.25f}, {Metric::tokens_per_s, 3319.5f}}},
  };
  for (const ProgramLine& line : lines) {
    const auto reader = read_line(line.line);
    ASSERT_TRUE(reader.history()) << line.line << '\n' << reader.bad().text();
    for (const Figure& figure : line.figures)
      EXPECT_EQ(reader.history()->values(figure.metric, kWholeRun, {20, 20}).front(), figure.value)
          << line.line << ", metric " << static_cast<int>(figure.metric) << '\n'
          << account_text(reader.account());
  }
}

TEST(ProgramNames, StepsOfAnEpochAreCountedOn) {
  LogReader reader("out.log");
  for (const char* line : {"Epoch:[1/2](90/100), loss: 9.5", "Epoch:[2/2](10/100), loss: 9.0"}) reader.read_line(line);
  reader.finish_step();
  ASSERT_TRUE(reader.history());
  EXPECT_EQ(reader.history()->steps(), (StepRange{90, 110}));
}

TEST(ProgramNames, StepsThatBeginAgainInAnEpochAreCountedOn) {
  LogReader reader("out.log");
  for (const char* line : {"epoch 1, iter 10 loss 9.5", "epoch 1, iter 20 loss 9", "epoch 2, iter 10 loss 8"})
    reader.read_line(line);
  const Imported imported = reader.finish();
  EXPECT_EQ(imported.runs.at(0)->steps(), (StepRange{10, 30}));
  EXPECT_EQ(imported.remarks.at(0), "its steps begin at 10 again in every epoch: they are counted on over the epochs");
}

TEST(ProgramNames, LoadsBelowALineWithFiguresAreListedIfTheirNameIsUnknown) {
  LogReader reader("out.log");
  for (const char* line :
       {"[Rank 0] step=10, skipped=0, lr=[0.5]", "layer 1 exp_counts: tensor([12, 14, 9], device='cuda:0')",
        "layer 1 fill of experts: [1, 2, 3]"})
    reader.read_line(line);
  reader.finish_step();
  EXPECT_EQ(reader.history()->frame_at(10)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{12, 14, 9}));
  EXPECT_NE(account_text(reader.account()).find("layer 1 fill of experts"), std::string::npos);
}

TEST(ProgramNames, FiguresOfLayersReplaceThoseOverAllLayers) {
  const auto reader = read_line(
      R"({"step":20,"train/load imbalance":9,"train/block 01/load imbalance":1.5,"train/block 02/load imbalance":2.5})");
  EXPECT_EQ(reader.history()->values(Metric::max_vio, kWholeRun, {20, 20}).front(), 1.0f);
  EXPECT_EQ(reader.history()->values(Metric::max_vio, 2, {20, 20}).front(), 1.5f);
}

TEST(ProgramNames, ARankWithoutALossGivesWayToOneThatHasIt) {
  LogReader reader("out.log");
  for (const char* line :
       {"[rank0]: step:  1  loss: -1.0000  grad_norm:  2.5", "[rank7]: step:  1  loss:  9.5  grad_norm:  2.5",
        "[rank0]: step:  2  loss: -1.0000  grad_norm:  2.5", "[rank7]: step:  2  loss:  9.0  grad_norm:  2.5"})
    reader.read_line(line);
  reader.finish_step();
  EXPECT_EQ(reader.history()->values(Metric::ce_loss, kWholeRun, {1, 2}), (std::vector<float>{9.5f, 9}));
}

TEST(ProgramNames, AListWithoutANameIsNamedAmongWhatIsNotShown) {
  const auto reader = read_line("Iter 10, loss 3.1000, [[610, 618], [588, 582]], [1, 2]");
  EXPECT_EQ(reader.history()->values(Metric::ce_loss, kWholeRun, {10, 10}).front(), 3.1f);
  EXPECT_NE(account_text(reader.account()).find("unnamed list"), std::string::npos);
  const auto named = read_line("step 10 | loss 3.1 | tokens_per_expert: [[610, 618], [588, 582]]");
  EXPECT_EQ(named.history()->frame_at(10)->routers.size(), 2u) << account_text(named.account());
}

}  // namespace
}  // namespace moescope
