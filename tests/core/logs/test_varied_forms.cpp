// Logs whose names and forms no list has: each is read, or a question says what must be stated.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/files/text/words.h"
#include "core/frame/frame.h"
#include "core/logs/account.h"
#include "core/logs/file_kind.h"
#include "core/logs/open_runs.h"
#include "tests/support/event_bytes.h"
#include "tests/support/log_forms.h"
#include "tests/support/says.h"

namespace moescope {
namespace {

using Counts = std::vector<std::uint32_t>;
using VariedForms = LogForms;

// Steps 0 and 1 of layers 1 and 2, each with two experts.
std::string table(const std::string& header, const std::string& layer_1, const std::string& layer_2) {
  std::string text = header + '\n';
  for (const char* step : {"0", "1"})
    for (const auto& [layer, counts] : {std::pair(layer_1, std::pair(3, 5)), std::pair(layer_2, std::pair(2, 6))}) {
      text += step + (',' + layer) + ",0," + std::to_string(counts.first) + '\n';
      text += step + (',' + layer) + ",1," + std::to_string(counts.second) + '\n';
    }
  return text;
}

TEST_F(VariedForms, ColumnsOfLayersHaveManyNames) {
  for (const char* header :
       {"iteration,block,expert_id,num_tokens", "step,layer_idx,expert,count", "step,moe_layer,expert,count",
        "step,blk,expert,count", "step,LayerID,ExpertIdx,NumTokens", "step,Decoder Layer Number,expert_index,tokens",
        "global_step,transformer.block.index,expert,hits", "step,moe_layer_name,expert no,load"})
    for (const auto& [first, second] :
         {std::pair("1", "2"), std::pair("model.layers.1.mlp", "model.layers.2.mlp"), std::pair("blk1", "blk2")}) {
      const auto opened_run = open({"loads.csv", table(header, first, second)}).histories.at(0);
      const History& run = *opened_run;
      EXPECT_EQ(run.info().moe_layers, (std::vector<int>{1, 2})) << header << first;
      EXPECT_EQ(run.frame_at(1)->routers.at(1).tokens_per_expert, (Counts{2, 6})) << header << first;
    }
}

TEST_F(VariedForms, AColumnThatMayBeTheLayerIsAskedFor) {
  for (const char* header : {"step,depth,expert,count", "step,where,expert,count"}) {
    const FileOfLog file{"loads.csv", table(header, "1", "2")};
    EXPECT_TRUE(says(problem(file), "an expert has several rows in a step: is \"")) << problem(file);
    ImportOptions stated;
    stated.rules.push_back("[[tag]]\npattern = [\"depth\", \"where\"]\nmeans = \"layer\"\n");
    EXPECT_EQ(open(file, stated).histories.at(0)->info().moe_layers, (std::vector<int>{1, 2}));
  }
  // Sorted by the layer, the steps of the second seem to be those of a restart.
  EXPECT_TRUE(says(problem({"sorted.csv", "step,depth,expert,count\n0,1,0,5\n1,1,0,5\n0,2,0,7\n1,2,0,7\n"}),
                   "is \"depth\" the layer?"));
  EXPECT_EQ(open({"one.csv", "step,depth,expert,count\n0,1,0,5\n1,2,0,7\n"}).histories.at(0)->info().moe_layers,
            (std::vector<int>{0}))
      << "each expert has one row in a step";
  try {
    import_log(write({"account.csv", table("step,depth,expert,count", "1", "2")}), FileKind::load_table, {});
    FAIL();
  } catch (const RefusedLog& refused) {
    const auto row = std::ranges::find(refused.account.rows, "depth", &AccountRow::name);
    ASSERT_NE(row, refused.account.rows.end());
    EXPECT_EQ(row->means, "layer");
    EXPECT_FALSE(row->question.empty());
    EXPECT_EQ(row->values, 8);
  }
}

TEST_F(VariedForms, LinesThatMayBeOfLayersAreAskedFor) {
  std::string text;
  for (const char* step : {"0", "1"})
    for (const char* layer : {"1", "2"})
      text += std::string("{\"step\":") + step + ",\"depth\":" + layer + ",\"expert_counts\":[3,5]}\n";
  EXPECT_TRUE(says(problem({"loads.jsonl", text}), "is \"depth\" the layer?"));
  ImportOptions stated;
  stated.rules.push_back("[[tag]]\npattern = \"depth\"\nmeans = \"layer\"\n");
  EXPECT_EQ(open({"loads.jsonl", text}, stated).histories.at(0)->info().moe_layers, (std::vector<int>{1, 2}));
  const std::string repeated_step = R"({"step":0,"epoch_time":3,"expert_counts":[3,5]}
{"step":1,"epoch_time":3,"expert_counts":[3,5]}
{"step":1,"epoch_time":4,"expert_counts":[3,5]}
{"step":2,"epoch_time":4,"expert_counts":[3,5]}
)";
  EXPECT_EQ(open({"again.jsonl", repeated_step}).histories.at(0)->count(), 3u) << "a step that was logged again";
}

TEST_F(VariedForms, ListsOfObjectsAreReadByTheirLabels) {
  for (
      const char* line :
      {R"({"step":STEP,"stats":[{"layer":1,"expert":0,"count":3},{"layer":1,"expert":1,"count":5},{"layer":2,"expert":0,"count":2},{"layer":2,"expert":1,"count":6}]})",
       R"({"step":STEP,"layers":[{"layer":1,"experts":[{"id":0,"load":3},{"id":1,"load":5}]},{"layer":2,"experts":[{"id":0,"load":2},{"id":1,"load":6}]}]})",
       R"({"step":STEP,"moe":[{"name":"layers.1.moe","tokens_per_expert":[3,5]},{"name":"layers.2.moe","tokens_per_expert":[2,6]}]})",
       R"({"step":STEP,"moe":[{"block":1,"tokens_per_expert":[3,5]},{"block":2,"tokens_per_expert":[2,6]}]})"}) {
    std::string text;
    for (const char* step : {"0", "1"}) text += std::string(line).replace(8, 4, step) + '\n';
    const auto opened_run = open({"loads.jsonl", text}).histories.at(0);
    const History& run = *opened_run;
    EXPECT_EQ(run.info().moe_layers, (std::vector<int>{1, 2})) << line;
    EXPECT_EQ(run.frame_at(0)->routers.at(1).tokens_per_expert, (Counts{2, 6})) << line;
  }
  const OpenedRuns timers = open(
      {"timers.jsonl", R"({"step":0,"loss":2.5,"timers":[{"name":"forward","ms":3},{"name":"backward","ms":5}]})"});
  EXPECT_TRUE(std::ranges::any_of(timers.accounts.at(0).rows, [](const AccountRow& row) {
    return row.name == "timers.backward.ms" && row.last == 5;
  })) << account_text(timers.accounts.at(0));
}

TEST_F(VariedForms, LinesMayBeOfAnExpertOrABlock) {
  std::string expert_lines, block_lines, name_lines;
  for (const char* step : {"0", "1"})
    for (const char* layer : {"1", "2"}) {
      const std::string begin = std::string("{\"step\":") + step;
      for (const char* expert : {"0", "1"})
        expert_lines += begin + ",\"layer\":" + layer + ",\"expert\":" + expert + ",\"tokens\":" + layer + "}\n";
      block_lines += begin + ",\"block\":" + layer + ",\"expert_counts\":[" + layer + ',' + layer + "]}\n";
      name_lines += begin + ",\"layer\":\"layers." + layer + "\",\"expert_counts\":[" + layer + ',' + layer + "]}\n";
    }
  for (const std::string& text : {expert_lines, block_lines, name_lines}) {
    const auto opened_run = open({"loads.jsonl", text}).histories.at(0);
    const History& run = *opened_run;
    EXPECT_EQ(run.info().moe_layers, (std::vector<int>{1, 2})) << text;
    EXPECT_EQ(run.frame_at(1)->routers.at(1).tokens_per_expert, (Counts{2, 2})) << text;
  }
}

TEST_F(VariedForms, TablesWithBlanksAndDecimalCommasAreRead) {
  for (const char* text :
       {"   step  layer  expert  tokens\n      0      1       0       3\n      0      1       1       5\n",
        "   step  layer  expert  tokens\n0     0      1       0       3\n1     0      1       1       5\n"})
    EXPECT_EQ(open({"loads.txt", text}).histories.at(0)->frame_at(0)->routers.at(0).tokens_per_expert, (Counts{3, 5}))
        << text;
  const auto opened_run = open({"german.csv", "step;loss;lr\r\n0;7,25;0,0003\r\n1;7,125;0,0003\r\n"}).histories.at(0);
  const History& run = *opened_run;
  EXPECT_EQ(run.value_at(Metric::ce_loss, kWholeRun, 1), 7.125f);
  const auto opened_nemo =
      open({"metrics.csv", "global_step,step,train_loss,val_loss\n0,0,3.5,\n,0,,3.25\n1,1,3,\n"}).histories.at(0);
  const History& nemo = *opened_nemo;
  EXPECT_EQ(nemo.value_at(Metric::val_loss, kWholeRun, 0), 3.25f) << "a row without the global step";
}

TEST_F(VariedForms, AnObjectMayHoldTheStepsInAList) {
  const auto opened_run =
      open(
          {"run.json", R"({"config":{"num_experts":2},"history":[{"step":0,"loss":2.5,"tokens_per_expert":[[3,5]]}]})"})
          .histories.at(0);
  const History& run = *opened_run;
  EXPECT_EQ(run.frame_at(0)->routers.at(0).tokens_per_expert, (Counts{3, 5}));
}

TEST_F(VariedForms, SumsAmongTheLoadsAreLeftOutIfTheUserStatesTheExperts) {
  ImportOptions three;
  three.routed.experts = 3;
  for (const FileOfLog& file :
       {FileOfLog{"lists.jsonl",
                  "{\"step\":0,\"tokens_per_expert\":[3,5,2,10]}\n{\"step\":1,\"tokens_per_expert\":[3,5,4,12]}\n"},
        FileOfLog{"first.jsonl",
                  "{\"step\":0,\"tokens_per_expert\":[10,3,5,2]}\n{\"step\":1,\"tokens_per_expert\":[12,3,5,4]}\n"},
        FileOfLog{"names.jsonl",
                  "{\"step\":0,\"moe/layer_0/expert_0\":3,\"moe/layer_0/expert_1\":5,\"moe/layer_0/expert_2\":2,\"moe/"
                  "layer_0/expert_3\":10}\n{\"step\":1,\"moe/layer_0/expert_0\":3,\"moe/layer_0/expert_1\":5,\"moe/"
                  "layer_0/expert_2\":4,\"moe/layer_0/expert_3\":12}\n"},
        FileOfLog{
            "rows.csv",
            "step,layer,expert,count\n0,0,0,3\n0,0,1,5\n0,0,2,2\n0,0,3,10\n1,0,0,3\n1,0,1,5\n1,0,2,4\n1,0,3,12\n"}}) {
    EXPECT_TRUE(says(open(file).accounts.at(0).experts.question, "are there 3 experts?")) << file.name;
    const OpenedRuns opened = open(file, three);
    EXPECT_EQ(opened.histories.at(0)->info().n_experts, 3) << file.name;
    EXPECT_EQ(opened.histories.at(0)->frame_at(1)->routers.at(0).tokens_per_expert, (Counts{3, 5, 4})) << file.name;
    EXPECT_TRUE(opened.accounts.at(0).experts.question.empty()) << opened.accounts.at(0).experts.question;
  }
  EXPECT_TRUE(says(problem({"none.jsonl", "{\"step\":0,\"tokens_per_expert\":[3,5,2,1]}\n"}, three),
                   "--experts 3, but the log has loads of 4 experts"));
}

TEST_F(VariedForms, FilesOfOtherRanksAreNamed) {
  const std::string line = "{\"step\":0,\"loss\":2.5}\n";
  for (const char* rank : {"0", "1", "2"}) write({std::string("rank_") + rank + ".jsonl", line});
  const OpenedRuns opened = open({"rank_0.jsonl", line});
  ASSERT_EQ(opened.remarks.size(), 1u);
  EXPECT_TRUE(says(opened.remarks[0], "2 files beside it may have other ranks or layers, and were not read: rank_"));
  EXPECT_TRUE(says(opened.remarks[0], "open the folder to read all"));
  for (const char* seed : {"0", "1"}) write({std::string("layer_1_in_fp8-") + seed + ".jsonl", line});
  EXPECT_TRUE(open({"layer_1_in_fp8-0.jsonl", line}).remarks.empty()) << "the other file is of the same layer";
}

// Keras prints a line for each epoch and then its values; its history has lists without steps.
TEST_F(VariedForms, EpochsAreStepsIfThereAreNoOthers) {
  for (const FileOfLog& file :
       {FileOfLog{
            "keras.log",
            "Epoch 1/2\n 90/313 [==>...] - ETA: 1s - loss: 9.0\r313/313 [====] - 2s 5ms/step - loss: 3.5 - val_loss: "
            "4.5\nEpoch 2/2\n313/313 [====] - 2s 5ms/step - loss: 2.5 - val_loss: 4.0\n"},
        FileOfLog{"loop.log", "INFO:root:Epoch 1: train loss 3.5, val loss 4.5\nINFO:root:Epoch 2: train loss 2.5\n"},
        FileOfLog{"history.json", R"({"loss": [3.5, 2.5], "val_loss": [4.5, 4.0], "lr": [0.1, 0.1]})"}}) {
    const auto run = open(file).histories.at(0);
    EXPECT_EQ(run->steps(), (StepRange{1, 2})) << file.name;
    EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 1), 3.5f) << file.name;
    EXPECT_EQ(run->value_at(Metric::val_loss, kWholeRun, 1), 4.5f) << file.name;
    EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 2), 2.5f) << file.name;
  }
  const auto steps = open({"steps.log", "Epoch 1/2\nstep 10 loss 3.5\nEpoch 1 loss 9\nstep 20 loss 2.5\n"});
  EXPECT_EQ(steps.histories.at(0)->steps(), (StepRange{10, 20}));
}

TEST_F(VariedForms, UnitsBelongToValuesAndEitherNumberNamesTheStep) {
  const OpenedRuns opened = open({"units.log", "step=1 loss=2.5 step_time=123ms mem=41.2GiB\nstep=2 loss=2.5\n"});
  EXPECT_TRUE(says(account_text(opened.accounts.at(0)), "step_time: 1 value, 123"));
  EXPECT_TRUE(says(account_text(opened.accounts.at(0)), "mem: 1 value, 41.2"));
  const auto validated =
      open({"iter.log", "iter 20 step 1 | loss 3.5\niter 40 step 2 | loss 2.5\niter 40: val loss 4.5\n"})
          .histories.at(0);
  EXPECT_EQ(validated->value_at(Metric::val_loss, kWholeRun, 2), 4.5f) << "the other number of the line before";
}

TEST_F(VariedForms, NaNBesideTheOtherLossIsNoValue) {
  const auto run =
      open({"history.csv",
            ",loss,eval/loss,lr,step,expert_load,w\n0,3.5,NaN,0.1,1,\"[3, 5]\",NaN\n1,NaN,4.5,NaN,1,NaN,NaN\n"
            "2,NaN,NaN,0.1,2,\"[4, 4]\",NaN\n"})
          .histories.at(0);
  EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 1), 3.5f);
  EXPECT_EQ(run->value_at(Metric::val_loss, kWholeRun, 1), 4.5f);
  EXPECT_EQ(run->value_at(Metric::lr, kWholeRun, 1), 0.1f);
  EXPECT_TRUE(std::isnan(run->frame_at(2)->ce_loss) && !is_missing(run->frame_at(2)->ce_loss)) << "a loss of NaN";
  EXPECT_EQ(run->frame_at(1)->routers.at(0).tokens_per_expert, (Counts{3, 5}));
}

TEST_F(VariedForms, TheExpertMayStandBeforeTheLayerInAName) {
  const auto run = open({"load.jsonl",
                         "{\"step\":0,\"expert_0/layer_1/tokens\":3,\"expert_1/layer_1/tokens\":5,"
                         "\"expert_0/layer_2/tokens\":2,\"expert_1/layer_2/tokens\":6}\n"})
                       .histories.at(0);
  EXPECT_EQ(run->info().moe_layers, (std::vector<int>{1, 2}));
  EXPECT_EQ(run->frame_at(0)->routers.at(1).tokens_per_expert, (Counts{2, 6}));
  const OpenedRuns assumed = open({"share.jsonl",
                                   "{\"step\":0,\"expert_0/blk_1/q\":0.25,\"expert_1/blk_1/q\":0.75,"
                                   "\"expert_0/blk_2/q\":0.5,\"expert_1/blk_2/q\":0.5}\n"});
  EXPECT_EQ(assumed.histories.at(0)->frame_at(0)->routers.at(0).tokens_per_expert.size(), 2u) << "by shape";
}

TEST_F(VariedForms, SettingsMayStandBesideTheValues) {
  for (const FileOfLog& file :
       {FileOfLog{"result.jsonl", R"({"training_iteration":1,"loss":2.5,"expert_load":[3,5],"config":{"top_k":2}})"},
        FileOfLog{"progress.csv", "training_iteration,loss,expert_load,config/top_k\n1,2.5,\"[3, 5]\",2\n"}})
    EXPECT_EQ(open(file).histories.at(0)->info().top_k, 2) << file.name;
}

TEST_F(VariedForms, LoadsOfLayersAndExpertsStandInManyPlaces) {
  for (const FileOfLog& file :
       {FileOfLog{"columns.csv", "step,expert,layer_1,layer_2\n1,0,3,2\n1,1,5,6\n"},
        FileOfLog{
            "tidy.csv",
            "iteration,variable,layer,expert,value\n1,loss,,,2.5\n1,tokens,1,0,3\n1,tokens,1,1,5\n1,tokens,2,0,2\n"
            "1,tokens,2,1,6\n1,gate_weight,2,1,0.5\n"},
        FileOfLog{"cells.csv", "step,layer,tokens_per_expert\n1,1,3 5 0\n1,2,2;6;0\n"},
        FileOfLog{"keys.jsonl", "{\"step\":1,\"expert_load\":{\"L1\":[3,5],\"L2\":{\"e0\":2,\"e1\":6}}}\n"},
        FileOfLog{"camel.jsonl",
                  "{\"globalStep\":1,\"trainLoss\":2.5,\"moe_layer_ids\":[1,2],\"expertLoad\":[[3,5],[2,6]]}\n"},
        FileOfLog{"lists.log",
                  "[1/2] loss=2.5 expert_load={'layer_1': [3, 5], 'layer_2': [2, 6]}\n[2/2] loss=2.5\n"}}) {
    const auto opened = open(file).histories.at(0);
    const auto frame = opened->frame_at(1);
    ASSERT_EQ(opened->info().moe_layers, (std::vector<int>{1, 2})) << file.name;
    for (const auto& [layer, counts] : {std::pair(0, Counts{3, 5}), std::pair(1, Counts{2, 6})}) {
      const Counts& read = frame->routers.at(layer).tokens_per_expert;
      EXPECT_TRUE(std::equal(counts.begin(), counts.end(), read.begin())) << file.name;
    }
  }
}

TEST_F(VariedForms, DecimalCommasMayStandBesideGroupsAndPercents) {
  const auto run =
      open({"german.csv",
            "Step;Loss;Tokens/s;layer_0_expert_0_share;layer_0_expert_1_share\n1;3,5;12.345,6;25,00 %;75,00 "
            "%\n2;2,5;12.345,6;50,00 %;50,00 %\n"})
          .histories.at(0);
  EXPECT_EQ(run->value_at(Metric::tokens_per_s, kWholeRun, 2), 12345.6f);
  EXPECT_EQ(run->frame_at(2)->routers.at(0).tokens_per_expert, (Counts{10000, 10000})) << "by shape";
}

TEST_F(VariedForms, LoadsBelowAStepAreReadInManyForms) {
  for (const FileOfLog& file :
       {FileOfLog{"brackets.log",
                  "step 1: loss=3.5\n  [layer 1] expert counts: [3, 5]\n  [layer 2] expert counts: [2, 6]\n"
                  "step 2: loss=2.5\n  [layer 1] expert counts: [4, 4]\n"},
        FileOfLog{"plain.log",
                  "step: 1\nloss: 3.5\nlayer_1_tokens_per_expert: [3, 5]\nlayer_2_tokens_per_expert: [2, 6]\n"
                  "---\nstep: 2\nloss: 2.5\n---\n"},
        FileOfLog{"table.md",
                  "| step | layer | e0 | e1 |\n|---|---|---|---|\n| 1 | 1 | 3 | 5 |\n| 1 | 2 | 2 | 6 |\n"
                  "| 2 | 1 | 4 | 4 |\n| 2 | 2 | 4 | 4 |\n"},
        FileOfLog{"run.log",
                  "{\"iter\":1,\"expert_load\":{\"layers.1\":{\"expert_0\":3,\"expert_1\":5},\"layers.2\":"
                  "{\"expert_0\":2,\"expert_1\":6}}}\n{\"iter\":2,\"loss\":2.5}\n"}}) {
    const auto frame = open(file).histories.at(0)->frame_at(1);
    ASSERT_TRUE(frame) << file.name;
    ASSERT_EQ(frame->routers.size(), 2u) << file.name;
    EXPECT_EQ(frame->routers[0].tokens_per_expert, (Counts{3, 5})) << file.name;
    EXPECT_EQ(frame->routers[1].layer, 2) << file.name;
    EXPECT_EQ(frame->routers[1].tokens_per_expert, (Counts{2, 6})) << file.name;
  }
}

TEST_F(VariedForms, WholeNumbersByExpertOfDifferentSumsAreAQuestion) {
  const OpenedRuns opened = open({"run.csv", "step,loss,L1_E0,L1_E1,L2_E0,L2_E1\n1,3.5,3,5,2,6\n2,2.5,3,4,2,7\n"});
  EXPECT_TRUE(opened.histories.at(0)->info().moe_layers.empty());
  const auto& rows = opened.accounts.at(0).rows;
  const auto loads = std::ranges::find(rows, "L{layer}_E{expert}", &AccountRow::name);
  ASSERT_NE(loads, rows.end());
  EXPECT_EQ(loads->means, "tokens_per_expert");
  EXPECT_TRUE(says(loads->question, "are they the tokens of each expert?")) << loads->question;
}

TEST_F(VariedForms, SharesMayHaveTheNameOfCounts) {
  const OpenedRuns opened = open(
      {"a.csv", "step,loss,layer_0/load/expert_0,layer_0/load/expert_1\n0,3.5,0.25,0.75\n1,2.5,0,1\n2,2.5,0.5,1.5\n"});
  const History& run = *opened.histories.at(0);
  for (const int step : {0, 2})
    EXPECT_EQ(run.frame_at(step)->routers.at(0).tokens_per_expert, (Counts{5000, 15000})) << step;
  EXPECT_TRUE(says(account_text(opened.accounts.at(0)), "0.25 is not whole: read as shares of the step"));
}

TEST_F(VariedForms, MeansOfCountsAndHugeCountsAreSharesOfTheStep) {
  for (const char* loads : {"[182.5, 547.5]", "[5e17, 1.5e18]", "[0.5, 1.5]", "[\"10,240\", \"30,720\"]"}) {
    const OpenedRuns opened =
        open({"a.jsonl", std::string("{\"step\":1,\"loss\":3.5,\"tokens_per_expert\":") + loads + "}\n"});
    const Counts& counts = opened.histories.at(0)->frame_at(1)->routers.at(0).tokens_per_expert;
    ASSERT_EQ(counts.size(), 2u) << loads;
    EXPECT_EQ(counts[1], 3 * counts[0]) << loads;
    EXPECT_EQ(opened.accounts.at(0).assumption(), "") << loads;
  }
  const OpenedRuns unclear = open({"a.jsonl", "{\"step\":1,\"loss\":3.5,\"tokens_per_expert\":[0.2, 0.1]}\n"});
  EXPECT_TRUE(says(unclear.accounts.at(0).assumption(), "are they shares of tokens?"));
  const OpenedRuns null = open({"a.jsonl", "{\"step\":1,\"loss\":3.5,\"tokens_per_expert\":[4, null]}\n"});
  EXPECT_TRUE(says(account_text(null.accounts.at(0)), "an expert has no value"));
}

TEST_F(VariedForms, TheBaseOfALossIsThatOfItsPerplexity) {
  const auto loss_of = [&](const char* values) {
    const OpenedRuns opened = open({"a.jsonl", std::string("{\"step\":1,") + values + "}\n"});
    return opened.histories.at(0)->value_at(Metric::ce_loss, kWholeRun, 1);
  };
  EXPECT_FLOAT_EQ(loss_of("\"loss\":4,\"ppl\":16"), 4 * static_cast<float>(kNatsOfBit));
  EXPECT_FLOAT_EQ(loss_of("\"loss\":4.2,\"nll_loss\":4,\"ppl\":\"16.0\""), 4 * static_cast<float>(kNatsOfBit));
  EXPECT_FLOAT_EQ(loss_of("\"loss\":4,\"perplexity\":54.6"), 4);
  EXPECT_FLOAT_EQ(loss_of("\"loss\":4,\"ppl\":30"), 4) << "of another text";
  const OpenedRuns late = open({"a.jsonl", "{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":4,\"ppl\":16}\n"});
  EXPECT_TRUE(says(account_text(late.accounts.at(0)), "is it in bits?"));
}

TEST_F(VariedForms, TotalsSinceTheStartAreAskedForAndTaken) {
  std::string text;
  for (int step = 0; step < 20; ++step)
    text += "{\"step\":" + std::to_string(step) + ",\"loss\":3,\"tokens_per_expert\":[" + std::to_string(3 * step + 3) +
            ',' + std::to_string(5 * step + 5) + "]}\n";
  EXPECT_TRUE(says(open({"a.jsonl", text}).accounts.at(0).assumption(), "are these its tokens since the start?"));
  ImportOptions stated;
  stated.rules.push_back("[[tag]]\npattern = \"tokens_per_expert\"\nmeans = \"tokens_per_expert_so_far\"\n");
  const OpenedRuns opened = open({"a.jsonl", text}, stated);
  EXPECT_EQ(opened.accounts.at(0).assumption(), "");
  EXPECT_EQ(opened.histories.at(0)->frame_at(9)->routers.at(0).tokens_per_expert, (Counts{3, 5}));
}

TEST_F(VariedForms, AListOfTheLargestLoadsAndOtherNumbersOfExpertsAreAskedFor) {
  std::string rows = "step,layer,expert,tokens\n", lines;
  for (int step = 0; step < 10; ++step) {
    for (const char* expert : {"0", "7", "13"}) rows += std::to_string(step) + ",0," + expert + ",100\n";
    lines += "{\"step\":" + std::to_string(step) + ",\"num_experts\":8,\"tokens_per_expert\":[3,5]}\n";
  }
  EXPECT_TRUE(says(open({"a.csv", rows}).accounts.at(0).assumption(), "as a list of the largest loads has"));
  ImportOptions stated;
  stated.routed.experts = 14;
  EXPECT_EQ(open({"a.csv", rows}, stated).accounts.at(0).assumption(), "");
  const OpenedRuns local = open({"a.jsonl", lines});
  EXPECT_TRUE(std::ranges::any_of(local.histories.at(0)->markers(), [](const Marker& marker) {
    return marker.kind == kAssumptionMarker && says(marker.text, "the log states 8 experts, but has loads of 2");
  }));
}

TEST_F(VariedForms, ValuesByNameOneAfterTheOtherAreJoined) {
  std::string list, lines;
  for (const char* name : {"train_loss", "grad_norm"})
    for (int step = 0; step < 40; ++step) {
      const std::string entry = std::string("{\"key\":\"") + name + "\",\"value\":" + std::to_string(9.5 - 0.1 * step) +
                                ",\"step\":" + std::to_string(step) + '}';
      list += (list.empty() ? "[" : ",") + entry;
      lines += entry + '\n';
    }
  for (const FileOfLog& file : {FileOfLog{"a.json", list + ']'}, FileOfLog{"a.jsonl", lines}}) {
    const OpenedRuns opened = open(file);
    const History& run = *opened.histories.at(0);
    EXPECT_EQ(run.count(), 40) << file.name;
    EXPECT_EQ(run.value_at(Metric::ce_loss, kWholeRun, 0), 9.5f) << file.name;
    EXPECT_EQ(run.value_at(Metric::grad_norm, kWholeRun, 0), 9.5f) << file.name;
  }
}

TEST_F(VariedForms, StatedPartsOfAStepAreJoined) {
  const FileOfLog file{"a.jsonl",
                       "{\"step\":1,\"accum_idx\":0,\"loss\":2,\"tokens_per_expert\":[1,7]}\n"
                       "{\"step\":1,\"accum_idx\":1,\"loss\":3,\"tokens_per_expert\":[4,4]}\n"
                       "{\"step\":1,\"accum_idx\":2,\"loss\":7,\"tokens_per_expert\":[4,4]}\n"};
  ImportOptions stated;
  stated.rules.push_back("[[tag]]\npattern = \"accum_idx\"\nmeans = \"part\"\n");
  const OpenedRuns opened = open(file, stated);
  const History& run = *opened.histories.at(0);
  EXPECT_EQ(run.frame_at(1)->routers.at(0).tokens_per_expert, (Counts{9, 15}));
  EXPECT_EQ(run.value_at(Metric::ce_loss, kWholeRun, 1), 4.0f);
}

TEST_F(VariedForms, TablesOfOneFigureAndGroupsOfDigitsAreRead) {
  const OpenedRuns neptune =
      open({"train_loss.csv", ",step,value,timestamp\n0,0.0,9.5,2026-11-30\n1,10.0,9.25,2026-11-30\n"});
  EXPECT_EQ(neptune.histories.at(0)->value_at(Metric::ce_loss, kWholeRun, 10), 9.25f);
  const OpenedRuns aim = open({"aim.csv",
                               "run.hash,metric.name,metric.context,step,metric.value\n"
                               "ab,loss,\"{'subset': 'train'}\",0,3.5\nab,loss,\"{'subset': 'val'}\",0,4.5\n"});
  EXPECT_EQ(aim.histories.at(0)->value_at(Metric::ce_loss, kWholeRun, 0), 3.5f);
  EXPECT_EQ(aim.histories.at(0)->value_at(Metric::val_loss, kWholeRun, 0), 4.5f);
  const OpenedRuns commas = open({"t.tsv", "step\tloss\ttokens/s\n900\t3.500\t72,914\n1,000\t3.250\t72,915\n"});
  EXPECT_EQ(commas.histories.at(0)->value_at(Metric::tokens_per_s, kWholeRun, 1000), 72915.0f);
  const OpenedRuns blanks =
      open({"b.csv", "step;loss;expert_0;expert_1\n0;9,5000;5\u202f437;1\u00a0346\n1;9,2500;5\u202f437;1\u00a0346\n"});
  EXPECT_EQ(blanks.histories.at(0)->frame_at(1)->routers.at(0).tokens_per_expert, (Counts{5437, 1346}));
}

TEST_F(VariedForms, AContextBesideNamesAndValuesIsHeeded) {
  const OpenedRuns opened =
      open({"a.csv",
            "metric.name,metric.context,step,value\n"
            "loss,\"{\"\"subset\"\": \"\"train\"\"}\",0,3.5\nloss,\"{\"\"subset\"\": \"\"val\"\"}\",0,4.5\n"});
  EXPECT_EQ(opened.histories.at(0)->value_at(Metric::ce_loss, kWholeRun, 0), 3.5f);
  EXPECT_EQ(opened.histories.at(0)->value_at(Metric::val_loss, kWholeRun, 0), 4.5f);
}

TEST_F(VariedForms, UnknownNamesBeforeTheStepHaveRows) {
  const OpenedRuns opened = open({"a.log", "gpu_temp: 61 | step: 1 | loss: 3.5\ngpu_temp: 62 | step: 2 | loss: 2.5\n"});
  const auto& rows = opened.accounts.at(0).rows;
  const auto temperature = std::ranges::find(rows, "gpu_temp", &AccountRow::first);
  ASSERT_NE(temperature, rows.end());
  EXPECT_EQ(temperature->values, 2);
  EXPECT_FALSE(temperature->is_shown);
}

TEST_F(VariedForms, NaNIsALossInATableWithBothLosses) {
  const auto run = open({"both.csv", "epoch,loss,val_loss\n1,3.5,3.6\n2,3,3.2\n3,nan,3.3\n4,2,nan\n"}).histories.at(0);
  const auto loss = [](const auto& history, Metric metric, std::int64_t step) {
    return history->values(metric, kWholeRun, {step, step}).front();
  };
  for (const float value : {loss(run, Metric::ce_loss, 3), loss(run, Metric::val_loss, 4)})
    EXPECT_TRUE(std::isnan(value) && !is_missing(value));
  const auto merged =
      open({"merged.csv", "step,loss,val_loss\n1,3.5,3.6\n2,3,nan\n3,2.5,3.2\n4,2,nan\n"}).histories.at(0);
  EXPECT_TRUE(is_missing(loss(merged, Metric::val_loss, 4))) << "a validation every other step";
}

TEST_F(VariedForms, TablesOfRichAndFiguresByTheirUnitAreRead) {
  const std::string row = "\u2502 loss \u2502 2.5 \u2502\n\u2502 lr \u2502 0.1 \u2502\n";
  const OpenedRuns rich = open({"rich.log", "  Step 1\n" + row + "  Step 2\n" + row});
  EXPECT_EQ(rich.histories.at(0)->value_at(Metric::ce_loss, kWholeRun, 2), 2.5f);
  const OpenedRuns speed =
      open({"speed.log", "step 1 | loss 3.5 | 45_120 tok/s\nstep 2 | loss 2.5 | 45.5k tokens/s\n"});
  EXPECT_EQ(speed.histories.at(0)->value_at(Metric::tokens_per_s, kWholeRun, 1), 45120.f);
  EXPECT_EQ(speed.histories.at(0)->value_at(Metric::tokens_per_s, kWholeRun, 2), 45500.f);
}

TEST_F(VariedForms, ExpertsMayBeNumberedFromOne) {
  for (const FileOfLog& file :
       {FileOfLog{"wide.csv", "step,layer,expert_1,expert_2,expert_3\n1,0,4,5,7\n2,0,4,5,7\n"},
        FileOfLog{"names.jsonl",
                  "{\"step\":1,\"moe/layer_0/expert_1/tokens\":4,\"moe/layer_0/expert_2/tokens\":5,"
                  "\"moe/layer_0/expert_3/tokens\":7}\n"
                  "{\"step\":2,\"moe/layer_0/expert_1/tokens\":4,\"moe/layer_0/expert_2/tokens\":5,"
                  "\"moe/layer_0/expert_3/tokens\":7}\n"}})
    EXPECT_EQ(open(file).histories.at(0)->frame_at(2)->routers.at(0).tokens_per_expert, (Counts{4, 5, 7})) << file.name;
  // Rows of experts without tokens may be left out: the account asks.
  for (const FileOfLog& file :
       {FileOfLog{"long.csv", "step,layer,expert,count\n1,0,1,4\n1,0,2,5\n1,0,3,7\n2,0,1,4\n2,0,2,5\n2,0,3,7\n"},
        FileOfLog{"objects.jsonl",
                  "{\"step\":1,\"tokens_per_expert\":{\"1\":4,\"2\":5,\"3\":7}}\n"
                  "{\"step\":2,\"tokens_per_expert\":{\"1\":4,\"2\":5,\"3\":7}}\n"},
        FileOfLog{"dump.json", "{\"expert_counts\":{\"1\":4,\"2\":5,\"3\":7}}"}}) {
    EXPECT_TRUE(says(open(file).accounts.at(0).experts.question, "if the experts are numbered from 1")) << file.name;
    ImportOptions options;
    options.routed.experts = 3;
    const OpenedRuns opened = open(file, options);
    const History& history = *opened.histories.at(0);
    EXPECT_EQ(history.frame_at(history.steps().last)->routers.at(0).tokens_per_expert, (Counts{4, 5, 7})) << file.name;
    EXPECT_TRUE(opened.accounts.at(0).experts.question.empty()) << file.name;
    EXPECT_TRUE(says(joined(opened.remarks, "\n"), "its experts are numbered from 1")) << file.name;
  }
  ImportOptions options;
  options.routed.experts = 3;
  const OpenedRuns trace = open({"trace.csv", "layer,expert\n0,1\n0,2\n1,2\n1,3\n"}, options);
  EXPECT_EQ(trace.histories.at(0)->frame_at(0)->routers.at(1).tokens_per_expert, (Counts{0, 1, 1}));
}

TEST_F(VariedForms, ColumnsOfJsonMayStandInObjects) {
  const OpenedRuns opened = open({"columns.json",
                                  "{\"steps\":[1,2],\"loss\":[3.5,2.5],\"val_loss\":[9,8,7],"
                                  "\"load\":{\"layer1\":[[4,5,7],[4,5,7]]}}"});
  EXPECT_EQ(opened.histories.at(0)->frame_at(2)->routers.at(0).tokens_per_expert, (Counts{4, 5, 7}));
  EXPECT_TRUE(says(account_text(opened.accounts.at(0)), "is a single figure, but has 3 values"));
  EXPECT_EQ(
      open({"list.json", "[{\"Step\":1,\"TrainLoss\":3.5},{\"Step\":2,\"TrainLoss\":2.5}]"}).histories.at(0)->steps(),
      (StepRange{1, 2}));
}

TEST_F(VariedForms, SettingsStandBesideTheValuesOfAStep) {
  const std::string line = ",\"num_experts\":3,\"top_k\":2,\"tokens_per_expert\":[4,4,4,4]}\n";
  const ImportAccount account = open({"beside.jsonl", "{\"step\":1" + line + "{\"step\":2" + line}).accounts.at(0);
  EXPECT_EQ(account.top_k.value, "2");
  EXPECT_TRUE(says(account.experts.question, "3")) << "the log states another number";
  EXPECT_TRUE(
      open({"sampler.jsonl", "{\"step\":1,\"loss\":3.5,\"top_k\":50}\n{\"step\":2,\"loss\":2.5,\"top_k\":50}\n"})
          .accounts.at(0)
          .top_k.value.empty());
  EXPECT_TRUE(says(problem({"routes.json", "{\"layers\":[{\"tokens\":[{\"experts\":[3,5]},{\"experts\":[1,2]}]}]}"}),
                   "nor counts of experts"));
}

TEST_F(VariedForms, ATableWithoutAKnownStepAsksForIt) {
  try {
    import_log(write({"step.csv", "Schritt;loss\n100;3,5\n200;2,5\n300;2,25\n"}), FileKind::load_table, {});
    FAIL();
  } catch (const RefusedLog& refused) {
    EXPECT_TRUE(says(account_text(refused.account), "is this the step?")) << account_text(refused.account);
  }
}

TEST_F(VariedForms, AValidationIsNoRepeatedTraining) {
  const OpenedRuns opened =
      open({"val.jsonl",
            "{\"step\":1,\"loss\":3.5,\"lr\":0.1}\n{\"step\":1,\"split\":\"val\",\"loss\":3.6,\"lr\":0.1}\n"
            "{\"step\":2,\"loss\":2.5,\"lr\":0.1}\n"});
  EXPECT_EQ(opened.remarks.size(), 1u);
  EXPECT_TRUE(says(opened.remarks.at(0), "not shown: split")) << "and no value that was logged again";
  EXPECT_EQ(opened.histories.at(0)->value_at(Metric::val_loss, kWholeRun, 1), 3.6f);
}

}  // namespace
}  // namespace moescope
