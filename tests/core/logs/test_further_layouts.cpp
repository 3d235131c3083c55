// Layouts of logs that stand for a kind: values below the line of their step, JSON by name or by step, a file for each
// rank or layer, numbers with units.
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <vector>

#include "core/frame/frame.h"
#include "core/logs/account.h"
#include "core/logs/open_runs.h"
#include "tests/support/event_bytes.h"
#include "tests/support/problem_of.h"
#include "tests/support/says.h"
#include "tests/support/test_folder.h"

namespace moescope {
namespace {

using LoadCounts = std::vector<std::uint32_t>;

class FurtherLayouts : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ / name;
    write_bytes(path, text);
    return path;
  }
  OpenedRuns open(const std::string& name, const std::string& text) const {
    return open_runs({write(name, text)}, {}, 4);
  }
  OpenedRuns open_folder(const ImportOptions& options = {}) const { return open_runs({folder_ / ""}, options, 4); }
  TestFolder folder_{"further_layouts"};
};

// The text for steps 10 and 20.
std::string at_two_steps(const std::string& text) {
  std::string all;
  for (const char* step : {"10", "20"}) {
    std::string one = text;
    for (std::size_t at = one.find("STEP"); at != std::string::npos; at = one.find("STEP")) one.replace(at, 4, step);
    all += one;
  }
  return all;
}

TEST_F(FurtherLayouts, ValuesBelowTheLineOfAStepBelongToIt) {
  for (const char* text :
       {"[batch=STEP/100]:\n\t Train loss/train/total: 2.5\n\t Train time/batch: 3\n",
        "==== Step STEP/100 ====\nPreparing the batch...\nTraining results:\n  - Loss: 2.5\n  - Mean length: 512\n",
        "Step STEP\n    loss = 2.5\n    lr = 0.1\n", "[step=STEP/100,epoch=1]\n    train/CE loss=2.5\n"}) {
    const OpenedRuns opened = open("train.log", at_two_steps(text));
    EXPECT_EQ(opened.histories.at(0)->steps(), (StepRange{10, 20})) << text;
    EXPECT_EQ(opened.histories.at(0)->value_at(Metric::ce_loss, kWholeRun, 10), 2.5f) << text;
  }
}

TEST_F(FurtherLayouts, LoadsBelowTheLineOfAStepBelongToIt) {
  for (const char* text :
       {"step STEP | loss 2.5\n  layer 1 tokens_per_expert: [3, 5]\n  layer 2 tokens_per_expert: [2, 6]\n",
        "step STEP loss 2.5\nlayer 1: tokens_per_expert [3, 5] max_vio 0.25\nLayer 2 | tokens_per_expert [2, 6]\n",
        "step STEP: loss 2.5, layer_1/load=[3, 5] layer_2/load=[2, 6]\n",
        "update=STEP loss=2.5\n[MoE] layer=1 step=STEP load=[3, 5]\n[MoE] layer=2 step=STEP load=[2, 6]\n",
        "step=STEP loss=2.5\nstep=STEP layer=1 expert=0 tokens=3\nstep=STEP layer=1 expert=1 tokens=5\n"
        "step=STEP layer=2 expert=0 tokens=2\nstep=STEP layer=2 expert=1 tokens=6\n",
        "step=STEP loss=2.5\n  layer=1 expert=0 tokens=3\n  layer=1 expert=1 tokens=5\n"
        "  layer=2 expert=0 tokens=2\n  layer=2 expert=1 tokens=6\n",
        "step STEP loss 2.5\n  MoE layer 1/4 | load [3, 5] | dropped 0.0%\n  MoE layer 2/4 | load [2, 6]\n",
        "step=STEP layer=1 loss=2.5 load=[3, 5]\nstep=STEP layer=2 load=[2, 6]\n",
        "{'step': STEP,\n 'loss': 2.5,\n 'load': {'layer_1': [3, 5],\n          'layer_2': [2, 6]}}\n"}) {
    const auto run = open("train.log", at_two_steps(text)).histories.at(0);
    ASSERT_EQ(run->info().moe_layers, (std::vector<int>{1, 2})) << text;
    EXPECT_EQ(run->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{3, 5})) << text;
    EXPECT_EQ(run->frame_at(20)->routers.at(1).tokens_per_expert, (LoadCounts{2, 6})) << text;
    EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 20), 2.5f) << text;
  }
  for (const char* rows : {"tokens per expert:\n   3   5  8\n   2   6  9\n\n", "expert load:\n[[3 5 8]\n [2 6 9]]\n",
                           "layer 0 expert load: 3 5 8\nlayer 1 expert load: 2 6 9\n",
                           "  layer 0/2 | expert load 3 5 8 | dropped 1\n  layer 1/2 | expert load 2 6 9 | dropped 1\n",
                           "Layer 0 expert load:\n  E00 \u2588\u2588 3\n  E01 \u2588\u2588\u2588 5\n  E02 "
                           "\u2588\u2588\u2588\u2588 8\nLayer 1 expert load:\n"
                           "  E00 \u2588 2\n  E01 \u2588\u2588\u2588 6\n  E02 \u2588\u2588\u2588\u2588 9\n"}) {
    const auto run = open("matrix.log", at_two_steps(std::string("step STEP loss 2.5\n") + rows)).histories.at(0);
    ASSERT_EQ(run->info().moe_layers, (std::vector<int>{0, 1})) << rows;
    EXPECT_EQ(run->frame_at(20)->routers.at(1).tokens_per_expert, (LoadCounts{2, 6, 9})) << rows;
  }
  const auto run =
      open("tensor.log", at_two_steps("step STEP: loss 2.5, load tensor([3,\n        5], device='cuda:0')\n"))
          .histories[0];
  EXPECT_EQ(run->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{3, 5}));
}

// A list without a name is taken for loads by its shape alone.
TEST_F(FurtherLayouts, RowsOfNumbersByLayerAreAssumedToBeLoads) {
  const auto bars = open("bars.log", at_two_steps("[step STEP] loss=2.5\nLayer 1 expert load:\n  E0 \u2588\u2588 3\n"
                                                  "  E1 \u2588\u2588\u2588 5\n  E2 \u2588 STEP\n"))
                        .histories.at(0);
  EXPECT_EQ(bars->frame_at(10)->routers.at(0).tokens_per_expert, (LoadCounts{3, 5, 10}))
      << "a step in brackets follows";
  for (const char* rows :
       {"Layer 0: 3 5 8\nLayer 1: 2 6 8\n", "        E0   E1   E2\nL0      3    5    8\nL1      2    6    8\n",
        "L0: [E0: 3, E1: 5, E2: 8] L1: [E0: 2, E1: 6, E2: 8]\n"}) {
    const bool is_in_line = std::string_view(rows).starts_with("L0:");
    const OpenedRuns opened =
        open("rows.log", at_two_steps(std::string("step STEP loss 2.5") + (is_in_line ? " | " : "\n") + rows));
    EXPECT_EQ(opened.histories.at(0)->frame_at(20)->routers.at(1).tokens_per_expert, (LoadCounts{2, 6, 8})) << rows;
    EXPECT_FALSE(opened.accounts.at(0).assumption().empty()) << rows;
  }
  const OpenedRuns percent =
      open("percent.log", at_two_steps("step STEP loss 2.5\nLayer 0: 25% 30% 45%\nLayer 1: 20% 40% 40%\n"));
  EXPECT_EQ(percent.histories.at(0)->info().n_experts, 3);
}

TEST_F(FurtherLayouts, AValueBeforeAListIsRead) {
  const auto run = open("list.log", at_two_steps("step STEP loss 2.5 expert_load=[3, 5, 8]\n")).histories.at(0);
  EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 20), 2.5f);
  const auto units = open("units.log", at_two_steps("step STEP loss: 2.5 expert_load: [3K, 5K, 8K]\n")).histories.at(0);
  EXPECT_EQ(units->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{3000, 5000, 8000}));
  const OpenedRuns part = open("part.log", at_two_steps("step STEP loss: 2.5 expert_load: tensor([3, 5, ..., 8])\n"));
  EXPECT_TRUE(says(account_text(part.accounts.at(0)), "the program printed only some of its entries"));
}

TEST_F(FurtherLayouts, KeysOfLoadsMayNameLayerAndExpert) {
  for (const char* keys : {R"("L1E0":3,"L1E1":5,"L2E0":2,"L2E1":6)", R"("l1_e0":3,"l1_e1":5,"l2_e0":2,"l2_e1":6)",
                           R"("layer1.0":3,"layer1.1":5,"layer2.0":2,"layer2.1":6)"}) {
    const std::string line = std::string(R"({"step":STEP,"expert_load":{)") + keys + "}}\n";
    const auto run = open("keys.jsonl", at_two_steps(line)).histories.at(0);
    ASSERT_EQ(run->info().moe_layers, (std::vector<int>{1, 2})) << keys;
    EXPECT_EQ(run->frame_at(20)->routers.at(1).tokens_per_expert, (LoadCounts{2, 6})) << keys;
  }
  // Keys of two numbers may be in either order: loads of equal sums show it, and are to be confirmed.
  const OpenedRuns numbers =
      open("numbers.jsonl", at_two_steps(R"({"step":STEP,"loss":2.5,"expert_load":{"0.0":3,"0.1":5,"1.0":2,"1.1":6}})"
                                         "\n"));
  EXPECT_EQ(numbers.histories.at(0)->frame_at(20)->routers.at(1).tokens_per_expert, (LoadCounts{2, 6}));
  EXPECT_TRUE(says(account_text(numbers.accounts.at(0)), "loads assumed from `expert_load.{n}.{n}`: confirm"));
  const OpenedRuns uneven =
      open("uneven.jsonl", at_two_steps(R"({"step":STEP,"loss":2.5,"expert_load":{"0.0":3,"0.1":5,"1.0":2,"1.1":8}})"
                                        "\n"));
  EXPECT_TRUE(says(account_text(uneven.accounts.at(0)), "are they the tokens of each expert?"));
  const auto text = open("text.jsonl", at_two_steps(R"({"step":STEP,"expert_load":"[3, 5, 8]"})"
                                                    "\n"));
  EXPECT_EQ(text.histories.at(0)->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{3, 5, 8}));
}

TEST_F(FurtherLayouts, ATableMayHaveALineAboveItAndItsHeaderInARemark) {
  const auto remark = open("remark.txt", "# step layer e0 e1\n10 1 3 5\n20 1 2 6\n").histories.at(0);
  EXPECT_EQ(remark->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{2, 6}));
  const auto notebook = open("table.txt",
                             " [20/20 02:33, Epoch 1/1]\nStep\tTraining Loss\tValidation Loss\n"
                             "10\t2.5\tNo log\n20\t2.25\tNo log\n");
  EXPECT_EQ(notebook.histories.at(0)->value_at(Metric::ce_loss, kWholeRun, 20), 2.25f);
  EXPECT_EQ(notebook.histories.at(0)->count(), 2u);
}

TEST_F(FurtherLayouts, ColumnsMayBeStepsOrLayers) {
  for (const char* header : {"metric,10,20\n", "name,step_10,step_20\n", ",step 10,step 20\n"}) {
    const auto run = open("turned.csv", header + std::string("loss,2.5,2.25\nlayer_1/expert_0/tokens,3,2\n"
                                                             "layer_1/expert_1/tokens,5,6\n"))
                         .histories.at(0);
    EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 20), 2.25f) << header;
    EXPECT_EQ(run->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{2, 6})) << header;
  }
  const auto steps = open("steps.csv", "expert,step_10,step_20\n0,3,2\n1,5,6").histories.at(0);
  EXPECT_EQ(steps->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{2, 6}));
  for (const char* text : {"expert,layer_1,layer_2\n0,3,2\n1,5,6\n", "layer_1 layer_2\nexpert_0 3 2\nexpert_1 5 6\n"}) {
    const auto layers = open(text[0] == 'e' ? "layers.csv" : "layers.txt", text).histories.at(0);
    EXPECT_EQ(layers->info().moe_layers, (std::vector<int>{1, 2})) << text;
    EXPECT_EQ(layers->frame_at(0)->routers.at(1).tokens_per_expert, (LoadCounts{2, 6})) << text;
  }
  EXPECT_TRUE(says(problem_of([&] { open("asked.csv", "expert,10,20\n0,3,2\n1,5,6\n"); }),
                   "its columns 10, 20, ... may be steps or layers: name them step_10 or layer_10"));
}

TEST_F(FurtherLayouts, FiguresBelowALineWithValuesAreNotThoseOfItsStep) {
  const auto run = open("train.log", at_two_steps("step STEP loss 2.5\nEvaluating on [10 texts]:\n    loss = 9.5\n"));
  EXPECT_EQ(run.histories.at(0)->value_at(Metric::ce_loss, kWholeRun, 20), 2.5f);
  EXPECT_EQ(run.histories.at(0)->count(), 2u);
}

TEST_F(FurtherLayouts, NumbersWithUnitsAreRead) {
  const auto run = open("units.log", at_two_steps("step=STEP loss=2.5 dropped_fraction=12.5% tokens/s=32.5k\n"));
  EXPECT_EQ(run.histories.at(0)->value_at(Metric::tokens_per_s, kWholeRun, 20), 32500.0f);
  const auto table = open("shares.csv", "step,layer_1/expert_0/share,layer_1/expert_1/share\n1,25%,75%\n2,50%,50%\n");
  EXPECT_EQ(table.histories.at(0)->info().n_experts, 2) << account_text(table.accounts.at(0));
}

TEST_F(FurtherLayouts, HeadersOfSeveralRowsAreRead) {
  for (const char* text :
       {",loss,load,load,load,load\nlayer,,1,1,2,2\nexpert,,0,1,0,1\nstep,,,,,\n1,2.5,3,5,2,6\n2,2.5,3,5,2,6\n",
        ";loss;load;;;\n;;layer 1;;layer 2;\nstep;;expert 0;expert 1;expert 0;expert 1\n"
        "1;2,5;3;5;2;6\n2;2,5;3;5;2;6\n"}) {
    const OpenedRuns opened = open("pivot.csv", text);
    ASSERT_EQ(opened.histories.size(), 1u) << text;
    const History& run = *opened.histories[0];
    EXPECT_EQ(run.info().moe_layers, (std::vector<int>{1, 2})) << account_text(opened.accounts.at(0));
    EXPECT_EQ(run.frame_at(2)->routers.at(1).tokens_per_expert, (LoadCounts{2, 6})) << text;
    EXPECT_EQ(run.value_at(Metric::ce_loss, kWholeRun, 1), 2.5f) << text;
    EXPECT_TRUE(opened.skipped.empty()) << text;
  }
}

TEST_F(FurtherLayouts, JsonWithTheValuesOfAllStepsTogetherIsRead) {
  for (const char* text :
       {R"({"step":[10,20],"loss":[2.5,2.25]})", R"({"loss":{"0":2.5,"1":2.25},"step":{"0":10,"1":20}})",
        R"({"train.loss":{"steps":[10,20],"timestamps":["a","b"],"values":[2.5,2.25]}})",
        R"({"loss":{"train":{"name":"train","x":[10,20],"y":[2.5,2.25]}},"lr":{"lr":{"x":[20,30],"y":[0.1,0.1]}}})",
        R"({"metrics":{"loss":[{"step":10,"value":2.5},{"step":20,"value":2.25}],"lr":[{"step":15,"value":0.1}]}})",
        R"({"metrics":[{"name":"loss","steps":[10,20],"values":[2.5,2.25]},{"name":"lr","steps":[10],"values":[1]}]})",
        R"({"columns":["step","loss"],"index":[0,1],"data":[[10,2.5],[20,2.25]]})",
        R"({"20":{"loss":2.25},"10":{"loss":2.5}})", R"({"metrics":{"10":{"loss":2.5},"20":{"loss":2.25}}})",
        R"([{"metricName":"loss","metricValue":"2.5","step":10},{"metricName":"loss","metricValue":"2.25","step":20}])",
        "{\n  \"step\": 10,\n  \"loss\": 2.5\n}\n{\n  \"step\": 20,\n  \"loss\": 2.25\n}\n"}) {
    const auto run = open("history.json", text).histories.at(0);
    EXPECT_EQ(run->steps().first, 10) << text;
    EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 10), 2.5f) << text;
    EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 20), 2.25f) << text;
  }
  const auto run =
      open("loads.json", R"({"step":[10,20],"loss":[3,2],"expert_counts":[[[3,5]],[[2,6]]]})").histories[0];
  EXPECT_EQ(run->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{2, 6}));
  EXPECT_TRUE(
      says(problem_of([&] { open("back.json", R"({"a":{"x":[1,2],"y":[1,2]},"loss":{"x":[2,1],"y":[1,2]}})"); }),
           "the steps of loss are not in ascending order"));
}

TEST_F(FurtherLayouts, AListOfLayersNumbersTheListsOfLoads) {
  const auto run = open("run.jsonl", "{\"step\":0,\"moe_layer_ids\":[1,5],\"expert_counts\":[[3,5],[2,6]]}\n");
  EXPECT_EQ(run.histories.at(0)->info().moe_layers, (std::vector<int>{1, 5}));
}

TEST_F(FurtherLayouts, FilesOfRanksAreOneRun) {
  write("rank_0.jsonl", at_two_steps("{\"step\":STEP,\"loss\":2.5,\"tokens_per_expert\":[[3,5]]}\n"));
  write("rank_1.jsonl", at_two_steps("{\"step\":STEP,\"loss\":2.5,\"tokens_per_expert\":[[2,6]]}\n"));
  const OpenedRuns added = open_folder();
  ASSERT_EQ(added.histories.size(), 1u);
  EXPECT_EQ(added.histories[0]->steps(), (StepRange{10, 20}));
  EXPECT_EQ(added.histories[0]->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{5, 11}));
  EXPECT_TRUE(
      says(added.remarks.at(0), "2 files are read as one run: rank_0.jsonl to rank_1.jsonl; their loads are added"));

  write("rank_1.jsonl", at_two_steps("{\"step\":STEP,\"loss\":2.5,\"tokens_per_expert\":[[3,5]]}\n"));
  EXPECT_EQ(open_folder().histories.at(0)->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{3, 5}))
      << "copies of one total";

  write("rank_1.jsonl", at_two_steps("{\"step\":STEP,\"loss\":2.5,\"tokens_per_expert\":[[9,7]]}\n"));
  EXPECT_TRUE(says(problem_of([&] { open_folder(); }), "if each rank has other experts, there are 4 (--experts)"));
  ImportOptions stated;
  stated.routed.experts = 4;
  EXPECT_EQ(open_folder(stated).histories.at(0)->frame_at(20)->routers.at(0).tokens_per_expert,
            (LoadCounts{3, 5, 9, 7}));
  stated.routed.experts = 2;
  EXPECT_EQ(open_folder(stated).histories.at(0)->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{12, 12}));
}

TEST_F(FurtherLayouts, FilesOfTheSameRankAreOfSeveralRuns) {
  for (const char* name : {"run1_rank_0.jsonl", "run1_rank_1.jsonl", "run2_rank_1.jsonl"})
    write(name, at_two_steps("{\"step\":STEP,\"loss\":2.5,\"tokens_per_expert\":[[3,5]]}\n"));
  EXPECT_TRUE(says(problem_of([&] { open_folder(); }), "is a folder of 3 runs"));
}

TEST_F(FurtherLayouts, FilesOfLayersAreOneRun) {
  write("layer_03.csv", "step,expert_0,expert_1\n1,3,5\n2,3,5\n");
  write("layer_12.csv", "step,expert_0,expert_1\n1,2,6\n2,2,6\n");
  write("notes.md", "text");
  const auto run = open_folder().histories.at(0);
  EXPECT_EQ(run->info().moe_layers, (std::vector<int>{3, 12}));
  EXPECT_EQ(run->frame_at(2)->routers.at(1).tokens_per_expert, (LoadCounts{2, 6}));
  write("other.csv", "step,loss\n1,2.5\n");
  EXPECT_TRUE(says(problem_of([&] { open_folder(); }), "is a folder of 3 runs"));
}

TEST_F(FurtherLayouts, AFileMayHaveTheHistoriesOfSeveralRuns) {
  const std::string base = R"([{"step":10,"loss":2.5},{"step":20,"loss":2.25}])",
                    other = R"([{"step":10,"loss":3.5},{"step":20,"loss":3.25}])",
                    columns = R"({"step":[10,20],"loss":[2.5,2.25]})",
                    columns_of_other = R"({"step":[10,20],"loss":[3.5,3.25]})";
  const std::string more = R"([{"step":10,"metrics":{"loss":3.5,"lr":0.1}},{"step":20,"metrics":{"loss":3.25}}])";
  for (const std::string& text :
       {R"({"base":)" + base + R"(,"fp8":)" + other + '}', R"({"base":)" + base + R"(,"fp8":)" + more + '}',
        R"({"runs":{"base":{"history":)" + base + R"(},"fp8":{"history":)" + other + "}}}",
        R"({"base":)" + columns + R"(,"fp8":)" + columns_of_other + '}',
        R"([{"name":"base","history":)" + base + R"(},{"name":"fp8","history":)" + other + "}]"}) {
    const auto runs = open("several.json", text).histories;
    ASSERT_EQ(runs.size(), 2u) << text;
    EXPECT_EQ(runs[1]->info().name, "fp8") << text;
    EXPECT_EQ(runs[0]->value_at(Metric::ce_loss, kWholeRun, 20), 2.25f) << text;
    EXPECT_EQ(runs[1]->value_at(Metric::ce_loss, kWholeRun, 20), 3.25f) << text;
  }
  const auto splits = open("splits.json", R"({"train":)" + base + R"(,"val":)" + other + '}').histories;
  ASSERT_EQ(splits.size(), 1u);
  EXPECT_EQ(splits[0]->value_at(Metric::ce_loss, kWholeRun, 20), 2.25f);
  EXPECT_EQ(splits[0]->value_at(Metric::val_loss, kWholeRun, 20), 3.25f);
  const auto evals = open("evals.json", R"([{"name":"a","eval":[{"step":10,"eval_loss":2.5}]},)"
                                        R"({"name":"b","eval":[{"step":10,"eval_loss":3.5}]}])")
                         .histories;
  ASSERT_EQ(evals.size(), 2u) << "runs without a training loss are not joined";
  EXPECT_EQ(evals[1]->value_at(Metric::val_loss, kWholeRun, 10), 3.5f);
  const auto none = open("none.json", R"({"a":{"log_history":[]},"log_history":)" + base + '}').histories;
  EXPECT_EQ(none.at(0)->value_at(Metric::ce_loss, kWholeRun, 20), 2.25f);
}

TEST_F(FurtherLayouts, LoadsOfRanksThatFollowEachOtherAreAdded) {
  std::string text;
  for (const char* rank : {"0", "1"})
    for (int step = 1; step <= 30; ++step)
      text += R"({"rank":)" + std::string(rank) + R"(,"step":)" + std::to_string(step) +
              R"(,"loss":2.5,"layer":3,"tokens_per_expert":[)" + std::to_string(step) + ",1]}\n";
  text += "not JSON\n";
  const OpenedRuns opened = open("ranks.jsonl", text);
  EXPECT_EQ(opened.histories.at(0)->steps(), (StepRange{1, 30}));
  // Ranks with the same loads are copies.
  EXPECT_EQ(opened.histories.at(0)->frame_at(2)->routers.at(0).tokens_per_expert, (LoadCounts{2, 1}));
  EXPECT_EQ(opened.skipped.at(0).bad.first().at(0).number, 61);
  const std::size_t last = text.rfind("[2,1]");
  const auto run = open("ranks.jsonl", text.replace(last, 5, "[7,1]")).histories.at(0);
  EXPECT_EQ(run->frame_at(2)->routers.at(0).tokens_per_expert, (LoadCounts{9, 2}));
}

TEST_F(FurtherLayouts, StepsMayHaveAUnit) {
  for (const char* text :
       {"step 2.01k | loss 2.5\nstep 2.02k | loss 2.25\n", "step=2.01e3 loss=2.5\nstep=2.02e3 loss=2.25\n",
        "iter 2.01k/10k, loss 2.5\niter 2.02k/10k, loss 2.25\n", "step 2.01e0k | loss 2.5\nstep 2.02e+0k | loss 2.25\n",
        "step 2.01k | loss 2.5e+02%\nstep 2.02k | loss 2250e-1%\n"}) {
    const auto run = open("steps.log", text).histories.at(0);
    EXPECT_EQ(run->steps(), (StepRange{2010, 2020})) << text;
    EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 2020), 2.25f) << text;
  }
}

TEST_F(FurtherLayouts, PandasMayPrintTheColumnsOfATableInBlocks) {
  const auto run = open("wide.txt",
                        "   step  layer  expert_0  \\\n0    10      1         3   \n1    20      1         2   \n\n"
                        "   expert_1  \n0         5  \n1         6  \n")
                       .histories.at(0);
  EXPECT_EQ(run->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{2, 6}));
  EXPECT_EQ(run->info().moe_layers, std::vector{1});
  const std::string first =
      "   step  layer  expert_0  \\\n0    10      1         3   \n1    20      1         2   \n\n";
  for (const char* other :
       {"   expert_1  \n0         5  \n", "   expert_1  \n0         5  \n1         6  \n2         7  \n",
        "   expert_1  \\\n0         5   \n\n   expert_2  \n0         5  \n1         6  \n"})
    EXPECT_THROW(open("wide.txt", first + other), std::runtime_error) << other;
}

TEST_F(FurtherLayouts, StepsOfATableMayHaveGroupsOfDigits) {
  const auto german = open("german.csv", "step;loss\n10;2,5\n1.000;2,25\n").histories.at(0);
  EXPECT_EQ(german->value_at(Metric::ce_loss, kWholeRun, 1000), 2.25f);
  const auto markdown =
      open("table.md", "| step | loss |\n|---|---|\n| 1,000 | 2.5 |\n| 2,000 | 2.25 |\n").histories.at(0);
  EXPECT_EQ(markdown->steps(), (StepRange{1000, 2000}));
}

TEST_F(FurtherLayouts, FilesOfGzipAreReadAsTheirText) {
  const auto pack = [&](const std::string& name, const std::string& text) {
    gzFile file = gzopen(std::string(folder_ / name).c_str(), "wb");
    EXPECT_EQ(gzwrite(file, text.data(), text.size()), static_cast<int>(text.size()));
    gzclose(file);
    return open_runs({folder_ / name}, {}, 4).histories.at(0);
  };
  const auto lines = pack("run.jsonl.gz", "{\"step\":10,\"loss\":2.5}\n{\"step\":20,\"loss\":2.25}\n");
  EXPECT_EQ(lines->value_at(Metric::ce_loss, kWholeRun, 20), 2.25f);
  const auto table = pack("run.csv.gz", "step,note,loss\n10,a,2.5\n20,b,2.25");
  EXPECT_EQ(table->value_at(Metric::ce_loss, kWholeRun, 20), 2.25f);
  const auto state =
      pack("trainer_state.json.gz", R"({"log_history":[{"step":10,"loss":2.5},{"step":20,"loss":2.25}]})");
  EXPECT_EQ(state->value_at(Metric::ce_loss, kWholeRun, 20), 2.25f);
}

std::string in_utf16(const std::string& text, bool big_endian) {
  std::string wide = big_endian ? "\xfe\xff" : "\xff\xfe";
  for (const char c : text) wide += big_endian ? std::string{'\0', c} : std::string{c, '\0'};
  return wide;
}

TEST_F(FurtherLayouts, Utf16IsReadAsUtf8) {
  const std::string lines = at_two_steps("{\"step\":STEP,\"loss\":2.5,\"layer_1/tokens_per_expert\":[3,5]}\r\n"),
                    table = "step,note,loss\r\n10,a,2.5\r\n20,b,2.5",
                    printed = at_two_steps("step STEP | loss 2.5\r\n");
  for (const bool big_endian : {false, true})
    for (const auto& [name, text] :
         {std::pair("run.jsonl", lines), std::pair("run.csv", table), std::pair("run.log", printed)}) {
      const auto run = open(name, in_utf16(text, big_endian)).histories.at(0);
      EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 20), 2.5f) << name;
    }
  std::string long_log;
  for (int step = 0; step < 20000; ++step) long_log += "step " + std::to_string(step) + " | loss 2.5\n";
  EXPECT_EQ(open("long.log", in_utf16(long_log, false)).histories.at(0)->steps(), (StepRange{0, 19999}));
}

TEST_F(FurtherLayouts, PhasesOfARunAreOneRun) {
  const std::string first = R"([{"step":10,"loss":2.5},{"step":20,"loss":2.25}])",
                    second = R"([{"step":30,"loss":2.0},{"step":40,"loss":1.75}])";
  const OpenedRuns phases = open("phases.json", R"({"anneal":)" + second + R"(,"pretrain":)" + first + '}');
  ASSERT_EQ(phases.histories.size(), 1u);
  EXPECT_EQ(phases.histories[0]->steps(), (StepRange{10, 40}));
  EXPECT_TRUE(says(phases.remarks.at(0), "are read as one run"));
}

TEST_F(FurtherLayouts, TablesOfAFigureEachAreOneRun) {
  write("Train_Samples_train_loss.csv", "step,train_loss\n10,2.5\n20,2.25\n");
  write("Train_Samples_lr.csv", "step,lr\n10,0.5\n20,0.25\n");
  write("Train_Samples_loss_scale.csv", "step,loss_scale\n10,1024\n20,1024\n");
  const OpenedRuns opened = open_folder();
  ASSERT_EQ(opened.histories.size(), 1u);
  EXPECT_EQ(opened.histories[0]->value_at(Metric::ce_loss, kWholeRun, 20), 2.25f);
  EXPECT_EQ(opened.histories[0]->value_at(Metric::lr, kWholeRun, 20), 0.25f);
  EXPECT_TRUE(says(account_text(opened.accounts.at(0)), "loss_scale: 2 values"));
  write("other.csv", "step,lr\n10,0.5\n");
  EXPECT_TRUE(says(problem_of([&] { open_folder(); }), "is a folder of"));
}

TEST_F(FurtherLayouts, DownloadsOfTensorBoardAreOneRun) {
  write("run-a-tag-train_loss.csv", "Wall time,Step,Value\n1.5,10,2.5\n2.5,20,2.25\n");
  write("run-a-tag-val_loss.csv", "Wall time,Step,Value\n1.5,10,3.5\n2.5,20,3.25\n");
  EXPECT_EQ(open_folder().histories.at(0)->value_at(Metric::val_loss, kWholeRun, 20), 3.25f);
  write("run-b-tag-lr.csv", "Wall time,Step,Value\n1.5,10,3.5\n2.5,20,3.25\n");
  EXPECT_TRUE(says(problem_of([&] { open_folder(); }), "is a folder of 3 runs"));
}

TEST_F(FurtherLayouts, LinesMayHaveTheExpertsOfATokenInALayer) {
  std::string text = R"({"type":"meta","top_k":2})"
                     "\n";
  for (int token = 0; token < 40; ++token)
    for (int layer = 0; layer < 2; ++layer)
      text += "{\"req_id\":\"a\",\"token_idx\":" + std::to_string(token) + ",\"layer\":" + std::to_string(layer) +
              ",\"topk_ids\":[" + std::to_string((token + layer) % 4) + "," + std::to_string((token + layer + 1) % 4) +
              "],\"topk_weights\":[0.6,0.4]}\n";
  const auto run = open("moe_routes.jsonl", text).histories.at(0);
  EXPECT_EQ(run->frame_at(0)->routers.at(1).tokens_per_expert, (LoadCounts{20, 20, 20, 20}));
  EXPECT_TRUE(says(problem_of([&] {
                     open("cut.jsonl", text + R"({"layer":0,"topk_ids":[1,2]})"
                                              "\n");
                   }),
                   "different numbers of tokens"));
}

TEST_F(FurtherLayouts, ObjectsHoldTheStepOrTheValueOfALine) {
  const auto named = open("named.jsonl", at_two_steps(R"({"name":"loss","data":{"epoch":0.5,"step":STEP,"value":2.5}})"
                                                      "\n"));
  EXPECT_EQ(named.histories.at(0)->value_at(Metric::ce_loss, kWholeRun, 20), 2.5f);
  const auto mlperf = open("mlperf.log", at_two_steps(":::MLLOG {\"key\": \"train_loss\", \"value\": 2.5, "
                                                      "\"metadata\": {\"step\": STEP, \"samples_count\": 640}}\n"));
  EXPECT_EQ(mlperf.histories.at(0)->steps(), (StepRange{10, 20}));
  const auto rows = open("rows.json", R"([["step","loss"],[10,3.5],[20,2.5]])");
  EXPECT_EQ(rows.histories.at(0)->value_at(Metric::ce_loss, kWholeRun, 20), 2.5f);
  const auto quoted = open("quoted.jsonl", at_two_steps(R"({"step":"STEP","loss":"2.5","tokens_per_second":"45,123"})"
                                                        "\n"));
  EXPECT_EQ(quoted.histories.at(0)->value_at(Metric::tokens_per_s, kWholeRun, 20), 45123.0f);
  const auto cell = open("cell.csv", "step,loss,tokens_per_second\n10,2.5,\"45,123\"\n20,2.5,\"45,123\"\n");
  EXPECT_EQ(cell.histories.at(0)->value_at(Metric::tokens_per_s, kWholeRun, 20), 45123.0f);
}

TEST_F(FurtherLayouts, ListsOfPairsArePrintedDicts) {
  const auto layers = open("layers.log", at_two_steps("step STEP | loss 2.5\nexpert_counts: [(1, tensor([12, 14, 9], "
                                                      "device='cuda:0')), (2, tensor([5, 20, 10]))]\n"));
  ASSERT_EQ(layers.histories.at(0)->info().moe_layers, (std::vector{1, 2}));
  EXPECT_EQ(layers.histories.at(0)->frame_at(20)->routers.at(1).tokens_per_expert, (LoadCounts{5, 20, 10}));
  const auto experts =
      open("experts.log", at_two_steps("step STEP | loss 2.5 | expert_load: [(0, 12), (2, 9), (1, 14)]\n"));
  EXPECT_EQ(experts.histories.at(0)->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{12, 14, 9}));
  const auto inside =
      open("inside.log", at_two_steps("{'step': STEP, 'loss': 2.5, 'expert_load': [(0, 12), (1, 14)]}\n"));
  EXPECT_EQ(inside.histories.at(0)->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{12, 14}));
}

TEST_F(FurtherLayouts, CommasOfLoadsAreBetweenTheirEntries) {
  const auto cells = open("cells.csv", "step,loss,tokens_per_expert\n10,2.5,\"614,480,702\"\n20,2.5,\"614,480,702\"\n");
  EXPECT_EQ(cells.histories.at(0)->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{614, 480, 702}));
  const auto text = open("text.jsonl", at_two_steps("{\"step\":STEP,\"loss\":2.5,\"expert_load\":\"12,14,9\"}\n"));
  EXPECT_EQ(text.histories.at(0)->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{12, 14, 9}));
  const auto columns = open("columns.csv", "step,loss,expert_0,expert_1\n10,2.5,\"1,234\",500\n20,2.5,\"1,234\",500\n");
  EXPECT_EQ(columns.histories.at(0)->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{1234, 500}));
  const auto pair = open("pair.csv", "step,loss,expert_counts\n10,2.5,\"3769,4423\"\n20,2.5,\"3769,4423\"\n");
  EXPECT_EQ(pair.histories.at(0)->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{3769, 4423}));
}

TEST_F(FurtherLayouts, OneNumberOfANameWithoutALayerIsOfAnExpert) {
  const auto columns =
      open("columns.csv", "step,loss,tokens_per_expert_0,tokens_per_expert_1\n10,2.5,12,500\n20,2.5,12,500\n");
  EXPECT_EQ(columns.histories.at(0)->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{12, 500}));
  const auto lists = open("lists.jsonl", at_two_steps("{\"step\":STEP,\"loss\":2.5,\"tokens_per_expert_3\":[7,9]}\n"));
  EXPECT_EQ(lists.histories.at(0)->frame_at(20)->routers.at(0).layer, 3);
}

TEST_F(FurtherLayouts, LoadsOfPrintedRanksAreAdded) {
  const auto run = open("ranks.log", at_two_steps("[rank 0] step STEP loss 2.5 tokens_per_expert [5, 1]\n"
                                                  "[rank 1] step STEP loss 3.5 tokens_per_expert [2, 1]\n"));
  EXPECT_EQ(run.histories.at(0)->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{7, 2}));
  EXPECT_EQ(run.histories.at(0)->value_at(Metric::ce_loss, kWholeRun, 20), 3.0f);
}

TEST_F(FurtherLayouts, OtherValuesOfTheSameStepsAreAskedAbout) {
  std::string runs, copies;
  for (int step = 1; step <= 20; ++step) {
    const std::string line = " step " + std::to_string(step) + " loss 2.5 tokens_per_expert [5, 1]\n";
    runs += "worker-a" + line + "worker-b step " + std::to_string(step) + " loss 2.75 tokens_per_expert [3, 3]\n";
    copies += "worker-a" + line + "worker-b" + line;
  }
  EXPECT_TRUE(says(open("runs.log", runs).accounts.at(0).assumption(), "several lines with other values"));
  EXPECT_EQ(open("copies.log", copies).accounts.at(0).assumption(), "");
}

TEST_F(FurtherLayouts, DifferentLoadsOfALayerUnderTwoNamesAreAskedAbout) {
  const auto question_of = [&](const char* decoder) {
    const std::string lists =
        std::string(",\"encoder.layers.0.expert_load\":[5,1],\"decoder.layers.0.expert_load\":") + decoder;
    return open("stacks.jsonl", at_two_steps("{\"step\":STEP,\"loss\":2.5" + lists + "}\n"))
        .accounts.at(0)
        .assumption();
  };
  EXPECT_TRUE(says(question_of("[3,3]"), "different loads of one layer"));
  EXPECT_EQ(question_of("[5,1]"), "");
}

TEST_F(FurtherLayouts, ATerminalMayWrapLists) {
  const auto run = open("copy.log", at_two_steps("step STEP loss 2.5 tokens_per_expert: [997, 10\n84, 955\n, 842]\n"));
  EXPECT_EQ(run.histories.at(0)->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{997, 1084, 955, 842}));
}

TEST_F(FurtherLayouts, UnitsOfNumbersAndNamesAreNoObstacle) {
  const auto thousands = open("k.log", at_two_steps("step STEP | loss 2.5 | expert load: 1.5k 2k 1.25k\n"));
  EXPECT_EQ(thousands.histories.at(0)->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{1500, 2000, 1250}));
  const auto header = open("nats.csv", "step,train_loss (nats)\n10,2.5\n20,2.25\n");
  EXPECT_EQ(header.histories.at(0)->value_at(Metric::ce_loss, kWholeRun, 10), 2.5f);
  const auto suffix = open("julia.log", at_two_steps("step = STEP loss = 9.8f0 tokens_per_expert = [5, 1]\n"));
  EXPECT_TRUE(says(account_text(suffix.accounts.at(0)), "\"9.8f0\" is not a number"));
}

TEST_F(FurtherLayouts, ANameEndsAtALossThatIsNaN) {
  const auto run = open("nan.log", at_two_steps("step STEP loss nan grad_norm inf tokens_per_expert [5, 1]\n"));
  EXPECT_EQ(run.histories.at(0)->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{5, 1}));
}

TEST_F(FurtherLayouts, SeriesOfPairsBeginWithTheStep) {
  const auto run = open("pairs.json", R"({"loss":[[10,2.5],[20,2.25]],"layer_1/tokens_per_expert":[[20,[3,5]]]})");
  EXPECT_EQ(run.histories.at(0)->steps(), (StepRange{10, 20}));
  EXPECT_EQ(run.histories.at(0)->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{3, 5}));
}

TEST_F(FurtherLayouts, TablesOfBlanksMayRepeatTheirHeader) {
  std::string text;
  for (const char* row : {"10 2.5 12", "20 2.25 13"}) text += "  step  loss  tok/s\n  " + std::string(row) + '\n';
  EXPECT_EQ(open("table.log", text).histories.at(0)->steps(), (StepRange{10, 20}));
}

TEST_F(FurtherLayouts, CountsMayHaveTheirExpertsAsKeys) {
  const auto run = open("counts.json", R"({"model.layers.3.mlp.experts":{"0":120,"1":80}})");
  EXPECT_EQ(run.histories.at(0)->frame_at(0)->routers.at(0).tokens_per_expert, (LoadCounts{120, 80}));
}

TEST_F(FurtherLayouts, HistogramsOfExpertNumbersAreLoads) {
  for (const char* limits : {"\"bins\":[-0.5,0.5,1.5]", "\"packedBins\":{\"min\":-0.5,\"size\":1,\"count\":2}"}) {
    const auto run =
        open("run.jsonl",
             at_two_steps(std::string("{\"_step\":STEP,\"layer_1/tokens_per_expert\":{\"_type\":\"histogram\",") +
                          "\"values\":[30,50]," + limits + "}}\n"))
            .histories.at(0);
    EXPECT_EQ(run->frame_at(20)->routers.at(0).tokens_per_expert, (LoadCounts{30, 50})) << limits;
  }
}

TEST_F(FurtherLayouts, LoadsAreNotTakenForWhatTheyAreNot) {
  const auto account_of = [&](const char* values) {
    return account_text(
        open("run.jsonl", at_two_steps(std::string("{\"step\":STEP,\"loss\":2.5,") + values + "}\n")).accounts.at(0));
  };
  EXPECT_TRUE(says(account_of("\"expert_usage\":{\"layer_0\":[25,25,30,20]}"), "add up to 100, as percent do"));
  EXPECT_FALSE(says(account_of("\"expert_tokens_by_rank\":[[6,7,5],[6,7,5]]"), "confirm"));
}

}  // namespace
}  // namespace moescope
