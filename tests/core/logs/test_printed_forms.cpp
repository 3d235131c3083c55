// Printed lines of many programs, as they come.
#include <fmt/core.h>
#include <gtest/gtest.h>

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
using PrintedForms = LogForms;

TEST_F(PrintedForms, PrintedNamesAndValuesAreRead) {
  for (const char* line :
       {"step  STEP  loss  7.25  grad norm  1.5",
        "step\tSTEP\tloss\t7.25\tgrad_norm\t1.5",
        "iter: 0.5 loss: 7.25 grad_norm: 1.5 step: STEP",
        "step=STEP,loss=7.25,grad_norm=1.5,lr=0.1",
        "loss=7.25 grad_norm=1.5 step=STEP",
        "msg=\"train step\" loss=7.25 step=STEP grad_norm=1.5",
        "step STEP loss: tensor(7.2500, device='cuda:0', grad_fn=<NllLossBackward0>) grad_norm: tensor(1.5)",
        "INFO - loss: 7.25, grad_norm: 1.5, global_step: STEP, interval_runtime: 1.2",
        "epoch 001:     40 / 400 loss=7.4, nll_loss=7.25, num_updates=STEP, gnorm=1.5",
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

TEST_F(PrintedForms, PrintedLoadsAreRead) {
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

TEST_F(PrintedForms, KnownFormsOfTextThatAreNotReadAreNamed) {
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

TEST_F(PrintedForms, PrintedFormsAreThoseOfTheMappingFiles) {
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
  EXPECT_TRUE(says(problem({"prose.txt", "1 train left at ten\n2 val d'or\n3 times 2.5\n"}), "is no log"));
}

TEST_F(PrintedForms, PrintedStepsMayStandAlone) {
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

TEST_F(PrintedForms, PrintedLinesWithoutAKnownStepAskForIt) {
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

// Loads that are numbered instead of listed are read, or a question asks for them.
TEST_F(PrintedForms, NumberedLoadsArePrinted) {
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

TEST_F(PrintedForms, EpochsInProseAreNoLog) {
  for (const char* text :
       {"In epoch 3 we saw (loss: 2.0).\nLater, epoch 5, loss: 1.5, it was better.\nEpoch 9, loss: 1.0.\n",
        "Epoch 4, loss: 2.0 was bad.\nEpoch 2, loss: 2.5 was worse.\n"})
    EXPECT_TRUE(says(problem({"prose.txt", text}), "is no log")) << text;
  const auto tens = open({"tens.log", "Epoch 10 loss: 3\nEpoch 20 loss: 2.5\nEpoch 30 loss: 2\nEpoch 40 loss: 1.5\n"});
  EXPECT_EQ(tens.histories.at(0)->steps(), (StepRange{10, 40}));
  const auto bars = open({"bars.log", "step-1 | step 1 loss 3\nstep-2 | step 2 loss 2\n"});
  EXPECT_EQ(bars.histories.at(0)->steps(), (StepRange{1, 2})) << "no names of containers";
}

TEST_F(PrintedForms, FurtherProgramsAreRead) {
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

TEST_F(PrintedForms, PrintedLoadsStandInManyForms) {
  const std::string first = "step 1 loss 3.5\n", second = "step 2 loss 2.5\n", loads = "layer 1 load:\n";
  const std::string by_expert = "  Expert 0: 4 tokens (25%) \u2588\u2588\n  Expert 1: 5\n  Expert 2: 7\n";
  EXPECT_TRUE(says(account_text(open({"named.log",
                                      "step 1 loss: 3.5 experts: 0=4 1=5 2=7\n"
                                      "step 2 loss: 2.5 experts: 0=4 1=5 2=7\n"})
                                    .accounts.at(0)),
                   "loads assumed from `experts`"));
  for (const auto& [name, step_text] : {std::pair("lines", loads + by_expert),
                                        {"array", std::string("layer 1 load=\n[4\n 5 7]\n")},
                                        {"from1", std::string("  layer 1 load: e1=4 e2=5 e3=7\n")}}) {
    const OpenedRuns opened = open({std::string(name) + ".log", first + step_text + second + step_text});
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

// The loss of three steps, whatever stands between them.
TEST_F(PrintedForms, OnlyTheStepsOfTheTrainingCount) {
  for (const char* line :
       {"micro step 1/4 loss 99\nmicro step 2/4 loss 99\nstep STEP loss LOSS\n",
        "DEBUG Micro Step 0/2 | Loss: 99 | Max Vio: 9\nSUCCESS Step STEP | Loss: LOSS\n",
        "inner iter: 1/ 8 | ppo epoch: 0/ 4 | global iter: STEP/ 50| loss: LOSS\n",
        "step STEP loss LOSS\n  eval step 0/2 loss 99\n  eval step 1/2 loss 99\n",
        "[+3.0s] it STEP loss LOSS gnorm 1.2\n", "STEP/446 (epoch 0), train_loss = LOSS\n",
        "step STEP train: loss LOSS acc 0.5\n", "step STEP (loss LOSS) (grad_norm 1.25)\n",
        "micro_iter: 8 | opt_step: STEP | loss: LOSS\n", "Step STEP. Loss = LOSS. Grad norm = 1.25.\n",
        "time/epoch: 0\nstep STEP loss LOSS\n\t time/token_in_epoch: 524288\n",
        "第 STEP 步 | 损失: LOSS | 梯度范数: 1.4\n"}) {
    std::string text;
    for (const char* step : {"1", "2", "3"}) {
      text += line;
      text.replace(text.find("STEP"), 4, step);
      text.replace(text.find("LOSS"), 4, std::string(step) + ".5");
    }
    const OpenedRuns opened = open({"train.log", text});
    const History& run = *opened.histories.at(0);
    EXPECT_EQ(run.steps(), (StepRange{1, 3})) << line;
    EXPECT_EQ(run.value_at(Metric::ce_loss, kWholeRun, 2), 2.5f) << line;
    EXPECT_FALSE(run.value_at(Metric::val_loss, kWholeRun, 3) == 99) << line;
  }
}

TEST_F(PrintedForms, AnEpochOfSeveralLinesIsNoStep) {
  for (const char* line : {"Epoch: EPOCH, Batch: BATCH, Loss: 2.5\n", "Epoch EPOCH Batch BATCH/5 Loss 2.5\n",
                           "[EPOCH,     BATCH] loss: 2.5\n", "Train Epoch: EPOCH [BATCH00/500 (1%)]\tLoss: 2.5\n",
                           "INFO: EPOCHepoch:train:1-BATCHbatch: loss=2.5\n", "epoch EPOCH loss 2.5\n"}) {
    std::string text;
    for (const char* epoch : {"1", "2", "3"})
      for (const char* batch : {"1", "2", "3", "4", "5"}) {
        text += line;
        text.replace(text.find("EPOCH"), 5, epoch);
        if (text.find("BATCH") != std::string::npos) text.replace(text.find("BATCH"), 5, batch);
      }
    const auto run = open({"train.log", text}).histories.at(0);
    EXPECT_EQ(run->steps(), (StepRange{1, 15})) << line;
    EXPECT_EQ(run->values(Metric::ce_loss, kWholeRun, {1, 15}).size(), 15u) << line;
  }
}

TEST_F(PrintedForms, LoadsBelongToTheLayerAndTheStepBesideThem) {
  for (const char* line : {"step STEP | loss 2.5 | layer 0 load [STEP, 2, 3] | layer 1 load [4, 5, 6]\n",
                           "step=STEP loss=2.5 layer=0 load=[STEP, 2, 3] layer=1 load=[4, 5, 6]\n",
                           "layer 0 load: [STEP, 2, 3]\nlayer 1 load: [4, 5, 6]\nstep STEP: loss 2.5\n"}) {
    std::string text;
    for (const char* step : {"1", "2", "3"}) {
      text += line;
      for (std::size_t at = text.find("STEP"); at != std::string::npos; at = text.find("STEP"))
        text.replace(at, 4, step);
    }
    const OpenedRuns opened = open({"train.log", text});
    const TelemetryFrame frame = *opened.histories.at(0)->frame_at(2);
    ASSERT_EQ(frame.routers.size(), 2u) << line;
    EXPECT_EQ(frame.routers[0].tokens_per_expert, (Counts{2, 2, 3})) << line;
    EXPECT_EQ(frame.routers[1].tokens_per_expert, (Counts{4, 5, 6})) << line;
    EXPECT_EQ(says(account_text(opened.accounts.at(0)), "in a form that is not read"), false) << line;
  }
}

TEST_F(PrintedForms, WhatIsNotReadIsTold) {
  const std::string steps = "step: 1 loss: 12.5 grad_norm: 1.5\nstep: 2 loss: 12.25 grad_norm: 1.5\n";
  const OpenedRuns cut = open({"cut.log", steps + "step: 3 loss: 1"});
  EXPECT_EQ(cut.histories.at(0)->steps(), (StepRange{1, 2}));
  EXPECT_TRUE(says(account_text(cut.accounts.at(0)), "line 3: its last number is cut off"));
  EXPECT_EQ(open({"whole.log", steps + "step: 3 loss: 1.25 grad_norm: 1.5"}).histories.at(0)->steps(),
            (StepRange{1, 3}));
  const auto account = [&](const std::string& text) { return account_text(open({"left.log", text}).accounts.at(0)); };
  EXPECT_TRUE(says(account("step: -1 loss: 9\n" + steps), "-1 is not a whole number from 0 on"));
  EXPECT_TRUE(says(account(steps + "step: 2 | Validation bpb: 1.3\n"), "bpb"));
  EXPECT_TRUE(says(account("micro step 1/2 loss 3\n" + steps), "1 line: count the micro batches"));
  const std::string slashes = account("step 1 Loss lm/aux=9.5/0.5, grad_norm=1.25. Time=3\nstep 2 loss: 3\n");
  EXPECT_TRUE(says(slashes, "Loss lm/aux"));
  EXPECT_TRUE(says(slashes, "grad_norm: 1 value, 1.25"));
}

TEST_F(PrintedForms, AValidationMayNameItsLossInAnotherWay) {
  const auto run = open({"eval.log",
                         "completed step: 1, loss: 9.5, lm_loss: 9.25\ncompleted step: 2, loss: 8.5, lm_loss: 8.25\n"
                         "eval metrics after step: 2, loss=8.75\n"})
                       .histories.at(0);
  EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 2), 8.25f);
  EXPECT_EQ(run->value_at(Metric::val_loss, kWholeRun, 2), 8.75f);
}

TEST_F(PrintedForms, TheProgramIsThatWhoseLinesAreRecognised) {
  EXPECT_EQ(open({"titan.log",
                  "step: 1  loss: 8.5  memory: 1.0GiB(1%)  tps: 10\nstep: 2  loss: 8  memory: 1.0GiB(1%)  tps: 10\n"})
                .accounts.at(0)
                .program,
            "TorchTitan");
}

}  // namespace
}  // namespace moescope
