// Logs whose names and forms no list has: each is read, or a question says what must be stated.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "core/files/text/words.h"
#include "core/frame/frame.h"
#include "core/logs/account.h"
#include "core/logs/file_kind.h"
#include "core/logs/open_runs.h"
#include "tests/support/event_bytes.h"
#include "tests/support/problem_of.h"
#include "tests/support/says.h"
#include "tests/support/test_folder.h"

namespace moescope {
namespace {

using Counts = std::vector<std::uint32_t>;

struct FileOfLog {
  std::string name, text;
};

class VariedForms : public testing::Test {
 protected:
  std::string write(const FileOfLog& file) const {
    const std::string path = folder_ / file.name;
    write_bytes(path, file.text);
    return path;
  }
  OpenedRuns open(const FileOfLog& file, const ImportOptions& options = {}) const {
    return open_runs({write(file)}, options, 4);
  }
  std::string problem(const FileOfLog& file, const ImportOptions& options = {}) const {
    return problem_of([&] { open(file, options); });
  }
  TestFolder folder_{"varied_forms"};
};

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
  std::string of_experts, of_blocks, of_names;
  for (const char* step : {"0", "1"})
    for (const char* layer : {"1", "2"}) {
      const std::string begin = std::string("{\"step\":") + step;
      for (const char* expert : {"0", "1"})
        of_experts += begin + ",\"layer\":" + layer + ",\"expert\":" + expert + ",\"tokens\":" + layer + "}\n";
      of_blocks += begin + ",\"block\":" + layer + ",\"expert_counts\":[" + layer + ',' + layer + "]}\n";
      of_names += begin + ",\"layer\":\"layers." + layer + "\",\"expert_counts\":[" + layer + ',' + layer + "]}\n";
    }
  for (const std::string& text : {of_experts, of_blocks, of_names}) {
    const auto opened_run = open({"loads.jsonl", text}).histories.at(0);
    const History& run = *opened_run;
    EXPECT_EQ(run.info().moe_layers, (std::vector<int>{1, 2})) << text;
    EXPECT_EQ(run.frame_at(1)->routers.at(1).tokens_per_expert, (Counts{2, 2})) << text;
  }
}

TEST_F(VariedForms, PrintedNamesAndValuesAreRead) {
  for (const char* line :
       {"step  STEP  loss  7.25  grad norm  1.5",
        "step\tSTEP\tloss\t7.25\tgrad_norm\t1.5",
        "iter: 0.5 loss: 7.25 grad_norm: 1.5 step: STEP",
        "step=STEP,loss=7.25,grad_norm=1.5,lr=0.1",
        "loss=7.25 grad_norm=1.5 step=STEP",
        "msg=\"train step\" loss=7.25 step=STEP grad_norm=1.5",
        "step STEP loss: tensor(7.2500, device='cuda:0', grad_fn=<NllLossBackward0>) grad_norm: tensor(1.5)",
        "INFO - loss: 7.25, grad_norm: 1.5, global_step: STEP, interval_runtime: 1.2",
        "epoch 001:     40 / 400 loss=7.25, nll_loss=7.1, num_updates=STEP, gnorm=1.5",
        "[1,0]<stdout>:step STEP loss 7.25 grad_norm 1.5\n[1,1]<stdout>:step STEP loss 9 grad_norm 9",
        "INFO rank=0 step STEP loss 7.25 grad_norm 1.5\nINFO rank=1 step STEP loss 9 grad_norm 9",
        "Training:  10%|#   | STEP/400 [00:10<01:30,  3.98it/s, loss=7.25, grad_norm=1.5]",
        "step STEP | consumed tokens: 12,345 | name=1,234 | loss: 7.25 | grad norm: 1.5",
        "\x1b[2m2026-11-01T10:00:00Z\x1b[0m [\x1b[32m\x1b[1minfo     \x1b[0m] \x1b[1mtrain_step     \x1b[0m "
        "\x1b[36mgrad_norm\x1b[0m=\x1b[35m1.5\x1b[0m \x1b[36mloss\x1b[0m=\x1b[35m7.25\x1b[0m "
        "\x1b[36mstep\x1b[0m=\x1b[35mSTEP\x1b[0m",
        "2026-11-01 10:00:00,123 INFO:   | Train Device=CSX, Step=STEP, Loss=7.25, grad_norm=1.5, Rate=69.37 "
        "samples/sec",
        "2026-11-01 INFO | Train GlobalStep=STEP, Loss=7.25, grad_norm=1.5",
        "INFO:tensorflow:loss = 7.25, grad_norm = 1.5, step = STEP (12.311 sec)",
        "[pod/moe-0/trainer] step STEP loss 7.25 grad_norm 1.5\n[pod/moe-1/trainer] step STEP loss 9 grad_norm 9",
        "trainer-1  | step STEP loss 7.25 grad_norm 1.5\ntrainer-2  | step STEP loss 9 grad_norm 9",
        "level=info step=STEP loss=7.25 step_time=123ms grad_norm=1.5 mem=41.2GiB"}) {
    std::string text;
    for (const char* step : {"10", "20"}) {
      std::string whole = line;
      for (std::size_t at = whole.find("STEP"); at != std::string::npos; at = whole.find("STEP"))
        whole.replace(at, 4, step);
      text += whole + '\n';
    }
    const OpenedRuns opened = open({"train.log", text});
    ASSERT_EQ(opened.histories.size(), 1u) << line;
    const History& run = *opened.histories[0];
    EXPECT_EQ(run.steps(), (StepRange{10, 20})) << line;
    EXPECT_EQ(run.value_at(Metric::ce_loss, kWholeRun, 20), 7.25f) << line;
    EXPECT_EQ(run.value_at(Metric::grad_norm, kWholeRun, 20), 1.5f) << line;
    EXPECT_FALSE(says(account_text(opened.accounts.at(0)), "\"12,345\"")) << "a count has groups of digits";
  }
}

TEST_F(VariedForms, PrintedLoadsAreRead) {
  for (const char* lines :
       {"step STEP loss 2.5 expert load {0: 3, 1: 5}\n", "step STEP loss 2.5 expert_counts Counter({1: 5, 0: 3})\n",
        "{'step': STEP, 'loss': 2.5, 'tokens_per_expert': {0: [3, 5]}}\n", "step STEP tokens_per_expert: [ 3\n 5]\n",
        "step STEP layer 0 tokens_per_expert: [3, 5]\n",
        "step STEP tokens_per_expert: tensor([3, 5], device='cuda:0')\n"}) {
    std::string text;
    for (const char* step : {"0", "1"}) text += std::string(lines).replace(std::string(lines).find("STEP"), 4, step);
    const auto opened_run = open({"train.log", text}).histories.at(0);
    const History& run = *opened_run;
    EXPECT_EQ(run.frame_at(1)->routers.at(0).tokens_per_expert, (Counts{3, 5})) << lines;
  }
  const auto opened_layers =
      open({"layers.log",
            "step 0 layer 1 tokens_per_expert: [3, 5]\nstep 0 layer 2 tokens_per_expert: [2, 6]\n"
            "step 1 layer 1 tokens_per_expert: [3, 5]\nstep 1 layer 2 tokens_per_expert: [2, 6]\n"})
          .histories.at(0);
  const History& layers = *opened_layers;
  EXPECT_EQ(layers.info().moe_layers, (std::vector<int>{1, 2}));
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

TEST_F(VariedForms, KnownFormsOfTextThatAreNotReadAreNamed) {
  for (const FileOfLog& file :
       {FileOfLog{"metrics.txt", "# HELP tokens tokens\n# TYPE tokens counter\ntokens{layer=\"1\",expert=\"0\"} 5\n"},
        FileOfLog{"scrape", "tokens{layer=\"1\",expert=\"0\"} 5 1700000000\n"},
        FileOfLog{"run.yaml", "run: a\nsteps:\n  - step: 0\n    loss: 2.5\n"},
        FileOfLog{"run.txt", "---\nstep: 0\nloss: 2.5\n"},
        FileOfLog{"list.txt", "- step: 0\n  loss: 2.5\n- step: 1\n  loss: 2.5\n"}}) {
    EXPECT_EQ(file_kind(write(file)), FileKind::unread) << file.name;
    EXPECT_TRUE(says(problem(file), "which has no steps and is not read: ") ||
                says(problem(file), "is YAML, which is not read: "))
        << problem(file);
  }
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

TEST_F(VariedForms, PrintedFormsAreThoseOfTheMappingFiles) {
  for (const FileOfLog& file :
       {FileOfLog{"main.log", "s:1 tel:4.5\ns:1 trl:3.5 lr:0.1 norm:2\ns:2 trl:2.5 lr:0.1 norm:2\n"},
        FileOfLog{"log.txt", "1 val 4.5\n1 hella 0.25\n1 train 3.5\n2 train 2.5\n"},
        FileOfLog{"mxnet.log",
                  "Epoch[0] Batch [1] Speed: 12 samples/sec\tloss=3.5 val_loss=4.5\n"
                  "Epoch[0] Batch [2] Speed: 12 samples/sec\tloss=2.5\n"},
        FileOfLog{"ignite.log",
                  "\rEpoch [1/2]: [1/30]  3%|#  , loss=3.5, val_loss=4.5 [00:01<00:20]"
                  "\rEpoch [1/2]: [2/30]  6%|#  , loss=2.5 [00:02<00:20]\n"},
        FileOfLog{"rich.log",
                  "\rEpoch 0/9  ━━━━╺━━━━ 1/30 0:00:05 • 0:00:45 train_loss: 3.5 val_loss: 4.5"
                  "\rEpoch 0/9  ━━━━╺━━━━ 2/30 0:00:05 • 0:00:45 train_loss: 2.5\n"},
        FileOfLog{"extra.log",
                  "{\"level\":\"INFO\",\"extra\":{\"step\":1,\"loss\":3.5,\"dev_loss\":4.5}}\n"
                  "{\"level\":\"INFO\",\"extra\":{\"step\":2,\"loss\":2.5}}\n"},
        FileOfLog{"sb3.log",
                  "-----------\n| time/ | |\n|    iterations | 1 |\n| train/  |   |\n|    loss  | 3.5   |\n"
                  "|    val_loss | 4.5 |\n-----------\n-----------\n| time/ | |\n|    iterations | 2 |\n"
                  "| train/ | |\n|    loss    | 2.5 |\n-----------\n"}}) {
    const auto run = open(file).histories.at(0);
    EXPECT_EQ(run->steps(), (StepRange{1, 2})) << file.name;
    EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 1), 3.5f) << file.name;
    EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 2), 2.5f) << file.name;
    EXPECT_EQ(run->value_at(Metric::val_loss, kWholeRun, 1), 4.5f) << file.name;
  }
  EXPECT_TRUE(says(problem({"again.log",
                            "Epoch[0] Batch [1] loss=3.5\nEpoch[0] Batch [2] loss=3\n"
                            "Epoch[1] Batch [1] loss=2.5\nEpoch[1] Batch [2] loss=2\n"}),
                   "again in every epoch"));
  EXPECT_TRUE(says(problem({"prose.txt", "1 train left at ten\n2 val d'or\n3 times 2.5\n"}), "is no log"));
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

TEST_F(VariedForms, PrintedStepsMayStandAlone) {
  for (const FileOfLog& file :
       {FileOfLog{"matrix.log", "step 1 loss 3.5\nexpert_load:\n[[3 5]\n [2 6]]\nstep 2 loss 2.5\n"},
        FileOfLog{"heading.log",
                  "------ step 1 ------\n  train loss      3.5\n  learning rate   0.1\n------ step 2 ------\n  train "
                  "loss   2.5\n"}}) {
    const auto run = open(file).histories.at(0);
    EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 1), 3.5f) << file.name;
    EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 2), 2.5f) << file.name;
    EXPECT_EQ(run->info().n_experts, file.name == "matrix.log" ? 2 : 0);
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

TEST_F(VariedForms, PrintedLinesWithoutAKnownStepAskForIt) {
  std::string text;
  for (int step = 0; step < 10; ++step)
    text += fmt::format("12:30 INFO gstep={} nll={:.1f} gnorm2=0.5\n", 5 * step, 9.0 - step);
  try {
    open({"train.log", text});
    FAIL() << "no name is the step";
  } catch (const RefusedLog& refused) {
    EXPECT_TRUE(says(account_text(refused.account), "gstep: 10 values, 0 to 45"));
    EXPECT_TRUE(says(account_text(refused.account), "is this the step?"));
  }
  ImportOptions options;
  options.rules = {tag_rule("gstep", "step") + tag_rule("nll", "ce_loss")};
  const auto run = open({"train.log", text}, options).histories.at(0);
  EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 45), 0.0f);
}

TEST_F(VariedForms, SharesMayHaveTheNameOfCounts) {
  const OpenedRuns opened = open(
      {"a.csv", "step,loss,layer_0/load/expert_0,layer_0/load/expert_1\n0,3.5,0.25,0.75\n1,2.5,0,1\n2,2.5,0.5,2\n"});
  const History& run = *opened.histories.at(0);
  EXPECT_EQ(run.frame_at(0)->routers.at(0).tokens_per_expert, (Counts{5000, 15000}));
  EXPECT_TRUE(says(account_text(opened.accounts.at(0)), "below 1: read as shares of the step"));
  EXPECT_TRUE(says(account_text(opened.accounts.at(0)), "line 4: tokens_per_expert: does not have a value for each"));
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

// Loads that are numbered instead of listed are read, or a question asks for them.
TEST_F(VariedForms, NumberedLoadsArePrinted) {
  for (const char* loads :
       {"0:25.0% 1:62.5% 2:12.5%", "e0=25% e1=62.5% e2=12.5%", "[0] 25% [1] 62.5% [2] 12.5%", "0:25%,1:62.5%,2:12.5%",
        "[E0:25%, E1:62.5%, E2:12.5%]", "E0: 25% (12 tokens) | E1: 62.5% (30 tokens) | E2: 12.5% (6 tokens)"})
    for (const char* name : {"expert load ", "tokens_per_expert: "}) {
      std::string text;
      for (const char* step : {"1", "2"})
        text += std::string("step ") + step + " | loss 2.5\n  layer 1 " + name + loads + "\n  layer 2 " + name + loads +
                '\n';
      const OpenedRuns opened = open({"train.log", text});
      const auto frame = opened.histories.at(0)->frame_at(2);
      ASSERT_EQ(frame->routers.size(), 2u) << text;
      EXPECT_EQ(frame->routers[1].tokens_per_expert, (Counts{7500, 18750, 3750})) << text;
      EXPECT_TRUE(says(account_text(opened.accounts.at(0)), "in percent: read as shares of the step"));
    }
  const std::string unknown =
      "step 1 loss 2.5 expert mix 0:25% 1:62.5% 2:12.5%\nstep 2 loss 2.25 expert mix 0:50% 1:40% 2:10%\n";
  EXPECT_TRUE(says(account_text(open({"mix.log", unknown}).accounts.at(0)), "by shape: confirm"));
}

TEST_F(VariedForms, EpochsInProseAreNoLog) {
  for (const char* text :
       {"In epoch 3 we saw (loss: 2.0).\nLater, epoch 5, loss: 1.5, it was better.\nEpoch 9, loss: 1.0.\n",
        "Epoch 4, loss: 2.0 was bad.\nEpoch 2, loss: 2.5 was worse.\n"})
    EXPECT_TRUE(says(problem({"prose.txt", text}), "is no log")) << text;
  const auto tens = open({"tens.log", "Epoch 10 loss: 3\nEpoch 20 loss: 2.5\nEpoch 30 loss: 2\nEpoch 40 loss: 1.5\n"});
  EXPECT_EQ(tens.histories.at(0)->steps(), (StepRange{10, 40}));
  const auto bars = open({"bars.log", "step-1 | step 1 loss 3\nstep-2 | step 2 loss 2\n"});
  EXPECT_EQ(bars.histories.at(0)->steps(), (StepRange{1, 2})) << "no names of containers";
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

TEST_F(VariedForms, FurtherProgramsAreRead) {
  for (const FileOfLog& file :
       {FileOfLog{"run-a-tag-train_loss.json", "[[1762000000.5, 1, 3.5], [1762000001.5, 2, 2.5]]"},
        FileOfLog{
            "marian.log",
            "[2026-11-01 10:00:01] Ep. 1 : Up. 1 : Sen. 12,345 : Cost 3.5 * 12,345 after 1,234,567 : Time 12.34s : "
            "1234.56 words/s : gNorm 1.5 : L.r. 3.0000e-04\n[2026-11-01 10:00:01] Ep. 1 : Up. 2 : Sen. 12,345 : "
            "Cost 2.5 * 12,345 after 1,234,567 : Time 12.34s : 1234.56 words/s\n"},
        FileOfLog{"dl4j.log",
                  "INFO o.d.o.l.ScoreIterationListener - Score at iteration 1 is 3.5\nINFO "
                  "o.d.o.l.ScoreIterationListener - Score at iteration 2 is 2.5\n"},
        FileOfLog{"loss.tsv", "timestamp\tstep\tloss\n1762000000\t1\t3.5\n1762000001\t2\t2.5\n"},
        FileOfLog{"table.md",
                  "| Training Loss | Epoch | Step |\n|:---:|:---:|:---:|\n| 3.5 | 1.0 | 1 |\n| 2.5 | 2.0 | 2 |\n"},
        FileOfLog{"psql.txt", " step | loss \n------+------\n    1 |  3.5\n    2 |  2.5\n(2 rows)\n"},
        FileOfLog{
            "ascii.txt",
            "+------+------+\n| step | loss |\n+------+------+\n|    1 |  3.5 |\n|    2 |  2.5 |\n+------+------+\n"},
        FileOfLog{"determined.jsonl",
                  "{\"group\":\"training\",\"total_batches\":1,\"metrics\":{\"avg_metrics\":{\"loss\":3.5}}}\n"
                  "{\"group\":\"training\",\"total_batches\":2,\"metrics\":{\"avg_metrics\":{\"loss\":2.5}}}\n"},
        FileOfLog{"espnet.log",
                  "(trainer:673) INFO: 1epoch:train:1-1batch: iter_time=1.2e-04, loss_att=9, loss=3.5\n"
                  "(trainer:673) INFO: 1epoch:train:2-2batch: iter_time=1.2e-04, loss_att=9, loss=2.5\n"}}) {
    const OpenedRuns opened = open(file);
    EXPECT_EQ(opened.histories.at(0)->steps(), (StepRange{1, 2})) << file.name;
    EXPECT_EQ(opened.histories.at(0)->value_at(Metric::ce_loss, kWholeRun, 2), 2.5f) << file.name;
    EXPECT_TRUE(opened.skipped.empty()) << file.name;
  }
  EXPECT_TRUE(says(problem({"README.md", "---\nlibrary_name: transformers\n---\n| Step |\n"}), "is a model card"));
  EXPECT_TRUE(says(problem({"influx.txt", "train,run=a loss=5.5,step=10i 1670000000000000000\n"}), "line protocol"));
  EXPECT_TRUE(says(problem({"spacy.txt", "E    #       LOSS NER\n---  ------  --------\n  0       0     48.3\n"}),
                   "is what spaCy prints"));
  EXPECT_TRUE(says(problem({"rich.txt", "\xe2\x94\x8f\xe2\x94\x81\n"}), "is a table printed by rich"));
}

TEST_F(VariedForms, PrintedLoadsStandInManyForms) {
  const std::string first = "step 1 loss 3.5\n", second = "step 2 loss 2.5\n", loads = "layer 1 load:\n";
  const std::string by_expert = "  Expert 0: 4 tokens (25%) \u2588\u2588\n  Expert 1: 5\n  Expert 2: 7\n";
  EXPECT_TRUE(says(account_text(open({"named.log",
                                      "step 1 loss: 3.5 experts: 0=4 1=5 2=7\n"
                                      "step 2 loss: 2.5 experts: 0=4 1=5 2=7\n"})
                                    .accounts.at(0)),
                   "loads assumed from `experts`"));
  for (const auto& [name, of_step] : {std::pair("lines", loads + by_expert),
                                      {"array", std::string("layer 1 load=\n[4\n 5 7]\n")},
                                      {"from1", std::string("  layer 1 load: e1=4 e2=5 e3=7\n")}}) {
    const OpenedRuns opened = open({std::string(name) + ".log", first + of_step + second + of_step});
    const TelemetryFrame frame = *opened.histories.at(0)->frame_at(2);
    ASSERT_EQ(frame.routers.size(), 1u) << name;
    EXPECT_EQ(frame.routers[0].layer, 1) << name;
    EXPECT_EQ(frame.routers[0].tokens_per_expert, (Counts{4, 5, 7})) << name;
  }
  const OpenedRuns quoted =
      open({"quoted.log", "step=1 loss=3.5 l0.load=\"4,5,7\"\nstep=2 loss=2.5 l0.load=\"4,5,7\"\n"});
  EXPECT_EQ(quoted.histories.at(0)->frame_at(2)->routers.at(0).tokens_per_expert, (Counts{4, 5, 7}));
  const OpenedRuns unread = open({"unread.log", first + "  moe[0] min/max 210/903\n" + second});
  EXPECT_TRUE(
      says(account_text(unread.accounts.at(0)), "1 line: speak of experts or MoE layers in a form that is not read"));
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

TEST_F(VariedForms, TheProgramIsThatWhoseLinesAreRecognised) {
  EXPECT_EQ(open({"titan.log",
                  "step: 1  loss: 8.5  memory: 1.0GiB(1%)  tps: 10\nstep: 2  loss: 8  memory: 1.0GiB(1%)  tps: 10\n"})
                .accounts.at(0)
                .program,
            "TorchTitan");
}

}  // namespace
}  // namespace moescope
