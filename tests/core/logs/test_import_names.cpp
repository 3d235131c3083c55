// JSON lines of other programs: their names, lines of the same step, and lines without a step.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/logs/lines/import_jsonl.h"
#include "core/logs/log_readers.h"
#include "tests/support/event_bytes.h"
#include "tests/support/problem_of.h"
#include "tests/support/read_lines.h"
#include "tests/support/says.h"
#include "tests/support/wandb_bytes.h"

namespace moescope {
namespace {

ReadLines log_of(std::initializer_list<std::string> lines) {
  return ReadLines(lines);
}

float value(const LogReader& reader, Metric metric, std::int64_t step, int layer = kWholeRun) {
  const auto history = reader.history();
  if (!history) return -1000;
  return history->values(metric, layer, {step, step}).front();
}

TEST(ImportNames, LoadsOfRanksAreAddedUnlessAllRanksHaveTheSame) {
  const auto loads_of = [](const char* second_loads, const char* part) {
    std::vector<std::string> lines;
    for (const auto& [number, loads] : {std::pair("0", "[3,5]"), std::pair("1", "[3,5]"), std::pair("2", second_loads)})
      lines.push_back(std::string("{\"step\":1,\"") + part + "\":" + number +
                      ",\"layer_3/tokens_per_expert\":" + loads + '}');
    const auto reader = log_of({lines[0], lines[1], lines[2]});
    return reader.history()->frame_at(1)->routers.at(0).tokens_per_expert;
  };
  EXPECT_EQ(loads_of("[3,5]", "rank"), (std::vector<std::uint32_t>{3, 5}));
  EXPECT_EQ(loads_of("[4,4]", "rank"), (std::vector<std::uint32_t>{10, 14}));
  EXPECT_EQ(loads_of("[3,5]", "micro_batch"), (std::vector<std::uint32_t>{9, 15}));
}

TEST(ImportNames, RanksWithOtherExpertsAreAskedForAndJoinedIfTheExpertsAreStated) {
  const auto read = [](const char* settings, const ImportOptions& options) {
    LogReader reader("run.jsonl", options);
    for (const char* line : {settings, R"({"step":1,"rank":0,"layer":0,"tokens_per_expert":[9,1]})",
                             R"({"step":1,"rank":1,"layer":0,"tokens_per_expert":[4,2]})"})
      reader.read_line(line);
    const Imported imported = reader.finish();
    return std::pair(imported.runs.at(0)->frame_at(1)->routers.at(0).tokens_per_expert, imported.account);
  };
  ImportOptions four, two;
  four.routed.experts = 4;
  two.routed.experts = 2;
  const auto [added, added_account] = read("", {});
  EXPECT_EQ(added, (std::vector<std::uint32_t>{13, 3}));
  EXPECT_NE(added_account.experts.question.find("2 ranks have different numbers of tokens"), std::string::npos);
  EXPECT_NE(added_account.experts.question.find("there are 4 (--experts)"), std::string::npos);
  EXPECT_EQ(added_account.to_confirm(), 1);
  for (const auto& [joined, account] : {read("", four), read(R"({"num_experts":4,"layers":1})", {})}) {
    EXPECT_EQ(joined, (std::vector<std::uint32_t>{9, 1, 4, 2}));
    EXPECT_EQ(account.experts.question, "");
  }
  EXPECT_EQ(read("", two).first, added);
  EXPECT_EQ(read("", two).second.experts.question, "");
}

TEST(ImportNames, JsonLinesKnowEveryNameThatTagsHave) {
  for (const char* name : {"loss", "train/loss", "Train/Loss", "train_loss", "lm loss", "ce_loss", "training.loss"}) {
    const auto reader = log_of({std::string(R"({"step":3,")") + name + R"(":2.5})"});
    EXPECT_EQ(value(reader, Metric::ce_loss, 3), 2.5f) << name << reader.bad().text();
  }
  for (const char* step : {"step", "global_step", "train/global_step", "current_steps", "iteration", "_step"}) {
    const auto reader = log_of({std::string(R"({")") + step + R"(":7,"eval/loss":2.5,"train/learning_rate":0.1})"});
    EXPECT_EQ(value(reader, Metric::val_loss, 7), 2.5f) << step << reader.bad().text();
    EXPECT_EQ(value(reader, Metric::lr, 7), 0.1f) << step;
  }
  for (const char* name : {"tokens_per_expert", "moe/tokens_per_expert", "num_tokens_per_expert", "expert_load"}) {
    const auto reader = log_of({std::string(R"({"step":0,")") + name + R"(":[[4.0,0,2,2e0],[1,1,3,3]]})"});
    EXPECT_EQ(value(reader, Metric::max_vio, 0, 0), 1.0f) << name << reader.bad().text();
  }
}

// Returns one run in every format, with its loads under `name`: [1, 3, 4] in step 2.
std::map<std::string, Imported> logs_with(const std::string& name) {
  const std::filesystem::path root = std::filesystem::temp_directory_path() / "moescope_names";
  std::filesystem::remove_all(root);
  const auto put = [&](const char* file, const std::string& bytes) {
    write_bytes(root / file, bytes);
    return (root / file).string();
  };
  std::map<std::string, Imported> logs;
  logs["JSON"] = import_jsonl(put("run.jsonl", R"({"step":2,"loss":5,")" + name + "\":[1,3,4]}\n"));
  logs["cells of CSV"] = import_table(put("wide.csv", "step,loss," + name + "\n2,5,\"[1,3,4]\"\n"));
  logs["rows of CSV"] = import_table(put("long.csv", "step,layer,expert," + name + "\n2,0,0,1\n2,0,1,3\n2,0,2,4\n"));
  logs["TensorBoard"] = import_events(put("events.out.tfevents.1", tb_summary(2, 1, tb_tensor(name, {3}, {1, 3, 4}))));
  logs["W&B"] = import_wandb(put("run-a.wandb", wandb_file({wandb_run("a", "x"), wandb_row(2, {{name, "[1,3,4]"}})})));
  return logs;
}

TEST(ImportNames, EveryFormatKnowsTheNamesOfLoads) {
  for (const char* name :
       {"load", "expert_load", "expert_counts", "tokens_per_expert", "moe/load", "num_tokens_per_expert"})
    for (const auto& [format, log] : logs_with(name)) {
      ASSERT_EQ(log.runs.size(), 1u) << format << ", " << name;
      const auto frame = log.runs[0]->frame_at(2);
      ASSERT_EQ(frame->routers.size(), 1u) << format << ", " << name;
      EXPECT_EQ(frame->routers[0].tokens_per_expert, (std::vector<std::uint32_t>{1, 3, 4})) << format << ", " << name;
      EXPECT_TRUE(log.remarks.empty()) << format << ", " << name << ": " << log.remarks[0];
    }
}

TEST(ImportNames, NamesOfLoadsWithTheirLayer) {
  for (const char* name : {"load/layer_3", "moe/load/layer_3", "layer_3/load", "expert_load/layer_3",
                           "layers.3.moe.expert_load", "expert_counts/layer_3", "layer_3/moe/expert_counts"}) {
    const auto lines = log_of({std::string(R"({"step":2,")") + name + R"(":[1,3]})"});
    ASSERT_TRUE(lines.history()) << name;
    EXPECT_EQ(lines.history()->info().moe_layers, std::vector<int>{3}) << name;
    EXPECT_EQ(value(lines, Metric::max_vio, 2, 3), 0.5f) << name;
  }
}

// A single number, such as the load of a machine, is no list of experts.
TEST(ImportNames, OneNumberIsNoLoadOfAllExperts) {
  const auto lines = log_of({R"({"step":2,"loss":5,"load":0.7})", R"({"step":3,"loss":4,"load":3})"});
  EXPECT_EQ(value(lines, Metric::ce_loss, 3), 4.0f) << lines.bad().text();
  EXPECT_TRUE(lines.history()->info().moe_layers.empty());
  EXPECT_EQ(lines.remarks(), std::vector<std::string>{"not shown: load"});
  const std::string bytes = tb_summary(2, 1, tb_scalar("loss", 5) + tb_scalar("load", 3));
  const auto path = std::filesystem::temp_directory_path() / "moescope_names" / "events.out.tfevents.2";
  write_bytes(path, bytes);
  const Imported events = import_events(path.string());
  EXPECT_TRUE(events.runs.at(0)->info().moe_layers.empty());
  EXPECT_EQ(events.remarks,
            std::vector<std::string>{"\"load\" is not shown: a single number is not the load of each expert"});
}

TEST(ImportNames, AQuotedNumberIsOne) {
  const auto quoted = log_of({R"({"global_step":"7","loss":"2.5"})", R"({"global_step":"7.5","loss":2})",
                              R"({"global_step":"","loss":2})", R"({"global_step":"8","loss":"NaN"})"});
  EXPECT_EQ(value(quoted, Metric::ce_loss, 7), 2.5f);
  EXPECT_TRUE(std::isnan(value(quoted, Metric::ce_loss, 8)));
  EXPECT_TRUE(quoted.remarks().empty()) << quoted.remarks()[0];
  ASSERT_EQ(quoted.bad().count(), 2);
  EXPECT_EQ(quoted.bad().first()[0].reason, "step: \"7.5\" is not a whole number from 0 on");
  const auto refused = log_of({R"({"global_step":"7th","loss":2.5})", R"({"global_step":"8th","loss":2.5})"});
  EXPECT_FALSE(refused.history());
  ASSERT_EQ(refused.bad().count(), 2) << "and it is not announced as another kind of log";
  EXPECT_TRUE(refused.remarks().empty()) << refused.remarks()[0];
}

TEST(ImportNames, NumbersInNamesAreLayersAndExperts) {
  const auto reader = log_of(
      {R"({"step":5,"train/loss":3,"moe/layer_1/tokens_per_expert":[6,2],"layers.3.moe.tokens_per_expert":[4,4],)"
       R"("layers.3.moe.expert_bias":[0.5,-0.5],"moe/layer_1/max_vio":0.75})",
       R"({"step":6,"tokens_per_expert/layer_1/expert_0":1,"tokens_per_expert/layer_1/expert_1":7.0})",
       R"({"step":7,"tokens_per_expert/layer_1/expert_0":1})", R"({"step":8,"tokens_per_expert/layer_9":[1,2]})"});
  ASSERT_TRUE(reader.history());
  EXPECT_EQ(reader.history()->info().moe_layers, (std::vector<int>{1, 3}));
  EXPECT_EQ(value(reader, Metric::max_vio, 5, 1), 0.75f) << "as the log says, not as the counts do";
  EXPECT_EQ(value(reader, Metric::max_vio, 6, 1), 0.75f);
  EXPECT_EQ(reader.history()->frame_at(5)->routers[1].expert_bias, (std::vector<float>{0.5f, -0.5f}));
  ASSERT_EQ(reader.bad().count(), 2);
  EXPECT_EQ(reader.bad().first()[0].reason, "tokens_per_expert: does not have a value for each expert");
  EXPECT_NE(reader.bad().first()[1].reason.find("layer 9"), std::string::npos);
}

TEST(ImportNames, NegativeCountsAreRefusedWithTheNumber) {
  const auto reader = log_of({R"({"step":0,"tokens_per_expert":[[4294967295.0,-0.0]]})",
                              R"({"step":1,"tokens_per_expert":[[-3,1]]})", R"({"step":2,"utilization":[[0.5,1.5]]})"});
  EXPECT_EQ(reader.history()->frame_at(0)->routers[0].tokens_per_expert, (std::vector<std::uint32_t>{4294967295, 0}));
  ASSERT_EQ(reader.bad().count(), 1);
  EXPECT_EQ(reader.bad().first()[0].reason, "tokens_per_expert: -3 is no load of an expert");
  EXPECT_FLOAT_EQ(value(reader, Metric::max_vio, 2, 0), 0.5f) << "shares are read as what they are";
}

TEST(ImportNames, OfTwoNamesForOneThingTheTablesFirstIsShown) {
  const auto reader = log_of({R"({"step":0,"loss":3.5,"ce_loss":3.0,"train_loss":9})", R"({"step":1,"loss":3.4})",
                              R"({"step":2,"loss":null,"ce_loss":2.0})"});
  EXPECT_EQ(value(reader, Metric::ce_loss, 0), 3.0f);
  EXPECT_TRUE(is_missing(value(reader, Metric::ce_loss, 1))) << "loss is another quantity";
  EXPECT_EQ(value(reader, Metric::ce_loss, 2), 2.0f);
}

TEST(ImportNames, FiguresOverAllLayersStandBesideThoseOfTheLayers) {
  const auto whole = log_of({R"({"step":0,"loss":3,"max_vio":0.5,"cv":0.25,"dead_fraction":0.125})"});
  EXPECT_EQ(value(whole, Metric::max_vio, 0), 0.5f) << whole.bad().text();
  EXPECT_EQ(value(whole, Metric::cv, 0), 0.25f);
  EXPECT_EQ(value(whole, Metric::dead_fraction, 0), 0.125f);
  EXPECT_TRUE(whole.history()->info().moe_layers.empty());
  const auto layers = log_of({R"({"step":0,"tokens_per_expert":[[1,3],[2,2]],"dropped_fraction":0.25,"max_vio":9})"});
  EXPECT_EQ(value(layers, Metric::dropped_fraction, 0), 0.25f) << layers.bad().text();
  EXPECT_EQ(value(layers, Metric::max_vio, 0), 0.25f) << "the mean over the layers, which their loads give";
  EXPECT_EQ(value(layers, Metric::max_vio, 0, 0), 0.5f);
}

// Each value of a line is read for itself.
TEST(ImportNames, AListThatCannotBeReadDoesNotCostTheOtherLayers) {
  const auto reader = log_of({R"({"step":0,"layer_1/load":[1,3],"layer_2/load":[2,2]})",
                              R"({"step":1,"loss":4,"layer_1/load":[-0.5,3],"layer_2/load":[3,5]})"});
  ASSERT_EQ(reader.bad().in_part(), 1);
  EXPECT_EQ(value(reader, Metric::ce_loss, 1), 4.0f);
  EXPECT_EQ(value(reader, Metric::max_vio, 1, 2), 0.25f);
  EXPECT_TRUE(is_missing(value(reader, Metric::max_vio, 1, 1)));
}

TEST(ImportNames, TheStepMayBeNamedIt) {
  EXPECT_EQ(value(log_of({R"({"it":7,"loss":2.5})", R"({"it":8,"loss":2})"}), Metric::ce_loss, 8), 2.0f);
}

// Hugging Face's Trainer writes the validation of a step on its own line, and totals on the last line.
TEST(ImportNames, LinesOfOneStepAreOneAndTotalsAreOfNone) {
  const auto reader = log_of({R"({"loss": 3.0, "grad_norm": 1.5, "learning_rate": 1e-05, "epoch": 0.1, "step": 10})",
                              R"({"loss": 2.0, "grad_norm": 1.4, "learning_rate": 1e-05, "epoch": 0.2, "step": 20})",
                              R"({"eval_loss": 2.1, "eval_runtime": 1.3, "epoch": 0.2, "step": 20})",
                              R"({"loss": 1.5, "grad_norm": 1.3, "learning_rate": 1e-05, "epoch": 0.3, "step": 30})",
                              R"({"train_runtime": 12.0, "train_loss": 2.1667, "epoch": 0.3, "step": 30})"});
  EXPECT_EQ(reader.bad().count(), 0) << reader.bad().text();
  EXPECT_EQ(value(reader, Metric::ce_loss, 10), 3.0f);
  EXPECT_EQ(value(reader, Metric::ce_loss, 20), 2.0f);
  EXPECT_EQ(value(reader, Metric::val_loss, 20), 2.1f);
  EXPECT_EQ(value(reader, Metric::ce_loss, 30), 1.5f);
  EXPECT_EQ(value(reader, Metric::grad_norm, 20), 1.4f);
  EXPECT_EQ(reader.remarks(), (std::vector<std::string>{"not shown: epoch"}));
}

TEST(ImportNames, ALateValueJoinsItsStep) {
  const auto reader =
      log_of({R"({"step":1,"loss":3,"tokens_per_expert":[[1,3]]})", R"({"step":2,"loss":2})", R"({"step":4,"loss":1})",
              R"({"step":1,"val_loss":3.5})", R"({"step":3,"val_loss":2.5})", R"({"step":5,"loss":0.5})"});
  EXPECT_EQ(reader.bad().count(), 0) << reader.bad().text();
  EXPECT_EQ(value(reader, Metric::val_loss, 1), 3.5f);
  EXPECT_EQ(value(reader, Metric::ce_loss, 1), 3.0f);
  EXPECT_EQ(value(reader, Metric::val_loss, 3), 2.5f) << "a step that had nothing else";
  EXPECT_EQ(value(reader, Metric::ce_loss, 4), 1.0f);
  EXPECT_EQ(value(reader, Metric::ce_loss, 5), 0.5f);
  EXPECT_EQ(value(reader, Metric::max_vio, 1, 0), 0.5f);
  EXPECT_TRUE(reader.remarks().empty());
}

TEST(ImportNames, ALateValueOfANamedRunIsNoRestart) {
  for (const char* run : {"\"run\":1", "\"run\":\"a\"", "\"rank\":0", "\"tokens\":5"}) {
    const std::string begin = "{" + std::string(run) + ",\"step\":";
    const auto reader = log_of({begin + "1,\"loss\":3}", begin + "2,\"loss\":2}", begin + "1,\"val_loss\":3.5}"});
    EXPECT_EQ(reader.history()->steps(), (StepRange{1, 2})) << run;
    EXPECT_EQ(value(reader, Metric::val_loss, 1), 3.5f) << run;
    EXPECT_TRUE(reader.remarks().empty()) << run << reader.remarks()[0];
  }
}

TEST(ImportNames, ARestartIsToldWithTheStepsThatItCost) {
  auto reader = log_of({R"({"step":0,"loss":5})", R"({"step":10,"loss":4})", R"({"step":20,"loss":3})",
                        R"({"step":30,"loss":2})", R"({"step":20,"loss":9})"});
  EXPECT_EQ(reader.history()->steps(), (StepRange{0, 20}));
  EXPECT_EQ(value(reader, Metric::ce_loss, 20), 9.0f);
  ASSERT_EQ(reader.remarks().size(), 1u);
  EXPECT_EQ(reader.remarks()[0],
            "continues from step 20: dropped steps 20 to 30 of an earlier attempt (2 logged steps)");
  ASSERT_EQ(reader.history()->markers().size(), 1u);
  EXPECT_EQ(reader.history()->markers()[0].step, 20);
  EXPECT_EQ(reader.history()->markers()[0].text, reader.remarks()[0]);
}

TEST(ImportNames, ALastLineOfStepZeroIsTold) {
  LogReader reader("here.jsonl");
  for (int step = 0; step < 1000; ++step) reader.read_line(R"({"loss":1,"step":)" + std::to_string(step) + "}");
  reader.read_line(R"({"step":0,"loss":1})");
  reader.finish_step();
  ASSERT_EQ(reader.remarks().size(), 1u);
  EXPECT_NE(reader.remarks()[0].find("steps 0 to 999 of an earlier attempt (1000 logged steps)"), std::string::npos)
      << reader.remarks()[0];
}

// Lines with one layer each follow the same rule for restarts.
TEST(ImportNames, RestartsAndLateLayersOfLinesThatAreOneLayer) {
  const auto line = [](int step, int layer, int first) {
    return R"({"step":)" + std::to_string(step) + R"(,"layer":)" + std::to_string(layer) + R"(,"tokens_per_expert":[)" +
           std::to_string(first) + R"(,4]})";
  };
  const auto reader = log_of({line(0, 1, 4), line(0, 2, 4), line(1, 1, 4), line(1, 2, 4), R"({"step":1,"loss":7})",
                              line(2, 1, 4), line(2, 2, 4), line(1, 1, 12), line(1, 2, 12)});
  EXPECT_EQ(reader.bad().count(), 0) << reader.bad().text();
  EXPECT_EQ(reader.history()->steps(), (StepRange{0, 1}));
  EXPECT_EQ(value(reader, Metric::max_vio, 1, 2), 0.5f);
  EXPECT_TRUE(is_missing(value(reader, Metric::ce_loss, 1))) << "of the attempt that was given up";
  EXPECT_EQ(reader.remarks().size(), 1u);
}

// A line that is repeated a hundred thousand times takes the time of that many lines and the memory of one.
TEST(ImportNames, ALineThatComesAgainTakesNoMemoryAndNoTime) {
  LogReader reader("here.jsonl");
  std::string load = "[" + std::string(1000, '1');
  for (std::size_t i = 2; i < load.size(); i += 2) load[i] = ',';
  reader.read_line(R"({"step":1,"tokens_per_expert":[)" + load + "1]]}");
  for (int i = 0; i < 100'000; ++i) reader.read_line(R"({"step":1,"loss":2})");
  reader.finish_step();
  EXPECT_EQ(reader.history()->count(), 1);
  EXPECT_EQ(reader.bad().count(), 0);
  EXPECT_EQ(value(reader, Metric::ce_loss, 1), 2.0f);
}

TEST(ImportNames, EntriesOfRoutersHaveTheNamesOfTheTable) {
  const auto reader = log_of({R"({"step":0,"routers":[{"layer":1,"expert_load":[6,2],"mood":3},)"
                              R"({"layer":2,"expert_load":[4,4]}]})"});
  ASSERT_TRUE(reader.history());
  EXPECT_EQ(value(reader, Metric::max_vio, 0, 1), 0.5f) << reader.bad().text();
  EXPECT_EQ(value(reader, Metric::max_vio, 0, 2), 0.0f);
  EXPECT_EQ(reader.remarks().back(), "not shown: routers.mood");
}

TEST(ImportNames, AShortLineClaimsNoMemory) {
  const auto reader =
      log_of({R"({"experts":60000,"layers":3,"moe_layers":[1,2],"domains":["a"]})", R"({"step":0,"loss":1})",
              R"({"step":1,"wire":{"ranks":4096}})", R"({"step":2,"specialisation":[{"layer":1,"byte":{}}]})",
              R"({"step":3,"layer":1,"volume":{"ranks":4096}})", R"({"step":4,"loss":1})"});
  ASSERT_EQ(reader.bad().count(), 3);
  EXPECT_EQ(reader.bad().first()[0].reason, "wire: no sent_bytes");
  EXPECT_EQ(reader.bad().first()[1].reason, "byte: too many experts");
  EXPECT_EQ(reader.history()->count(), 2);
  LogReader wide_reader("here.jsonl");
  wide_reader.read_line(R"({"experts":4000,"layers":2,"moe_layers":[1]})");
  std::string ones = "1";
  for (int expert = 1; expert < 4000; ++expert) ones += ",1";
  const std::string row = R"({"layer":1,"byte":{"65":[)" + ones + "]}}";  // 8 kB, which become 4 MB
  wide_reader.read_line(R"({"step":5,"specialisation":[)" + row + "," + row + "," + row + "]}");
  ASSERT_EQ(wide_reader.bad().count(), 1);
  EXPECT_EQ(wide_reader.bad().first()[0].reason, "claims far more memory than the line is long");
}

// A file with more runs than can be shown side by side: the error lists them, and a name chooses one.
TEST(ImportNames, OneOfSixteenRunsIsChosen) {
  const auto path = std::filesystem::temp_directory_path() / "moescope_sixteen_runs.jsonl";
  {
    std::ofstream file(path);
    for (int run = 0; run < 16; ++run) {
      if (run != 3) file << R"({"run":)" << run << R"(,"name":"seed )" << run << "\"}\n";
      file << R"({"run":)" << run << R"(,"step":1,"loss":)" << run << "}\n";
    }
  }
  ImportOptions options;
  options.most_runs = 4;
  try {
    import_jsonl(path.string(), options);
    FAIL();
  } catch (const std::runtime_error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find(path.string() + ": holds 16 runs"), std::string::npos) << message;
    EXPECT_NE(message.find("--run NAME chooses one of: seed 0, seed 1, seed 2, moescope_sixteen_runs run 3"),
              std::string::npos)
        << message;
  }
  options.only = {"seed 12", "seed 5"};
  const Imported chosen = import_jsonl(path.string(), options);
  ASSERT_EQ(chosen.runs.size(), 2u);
  EXPECT_EQ(chosen.runs[0]->info().name, "seed 5");
  EXPECT_EQ(chosen.runs[1]->info().run, 1);
  EXPECT_EQ(chosen.runs[1]->value_at(Metric::ce_loss, kWholeRun, 1), 12.0f);
  options.only = {"seed 99"};
  EXPECT_THROW(import_jsonl(path.string(), options), std::runtime_error);
  std::filesystem::remove(path);
}

TEST(ImportNames, ReasonsAreShort) {
  LogReader reader("here.jsonl");
  reader.read_line(R"({"step":0,"quants":[{"layer":1,"weight":")" + std::string(1 << 20, 'x') + R"("}]})");
  ASSERT_EQ(reader.bad().count(), 1);
  EXPECT_LT(reader.bad().first()[0].reason.size(), 400u);
  std::string names = R"({"step":0)";
  for (int i = 0; i < 70000; ++i) names += ",\"k" + std::to_string(i) + "\":1";
  reader.read_line(names + "}");
  EXPECT_EQ(reader.bad().count(), 2);
}

TEST(ImportNames, NamesOfTheStepMayTakeTurns) {
  const auto turns = log_of({R"({"step":0,"loss":4})", R"({"global_step":1,"loss":3})", R"({"step":2,"loss":2})"});
  EXPECT_EQ(turns.bad().count(), 0) << turns.bad().text();
  EXPECT_EQ(turns.history()->steps(), (StepRange{0, 2}));
  EXPECT_EQ(value(turns, Metric::ce_loss, 1), 3.0f);
  EXPECT_TRUE(turns.remarks().empty()) << turns.remarks().front();
}

TEST(ImportNames, ANameOfTheStepWithoutANumberDoesNotCount) {
  const auto reader = log_of({R"({"step":1,"global_step":-1,"loss":4})", R"({"step":2,"global_step":null,"loss":3})",
                              R"({"step":3,"global_step":3,"loss":2})", R"({"step":-1,"loss":1})"});
  EXPECT_EQ(reader.history()->steps(), (StepRange{1, 3}));
  ASSERT_EQ(reader.bad().count(), 1);
  EXPECT_EQ(reader.bad().first()[0].reason, "step: -1 is not a whole number from 0 on");
}

// If `step` counts within an epoch, `global_step` is the step, and a line without it has no step.
TEST(ImportNames, OfTwoNamesOfTheStepThatDifferTheGlobalOneCounts) {
  const auto reader = log_of({R"({"epoch":0,"step":0,"global_step":100,"loss":4})",
                              R"({"epoch":0,"step":1,"global_step":101,"loss":3})",
                              R"({"epoch":1,"step":0,"global_step":102,"loss":2})",
                              R"({"global_step":102,"eval_loss":2.5})", R"({"step":1,"loss":1})"});
  EXPECT_EQ(reader.history()->steps(), (StepRange{100, 102}));
  EXPECT_EQ(value(reader, Metric::ce_loss, 101), 3.0f);
  EXPECT_EQ(value(reader, Metric::val_loss, 102), 2.5f);
  ASSERT_EQ(reader.bad().count(), 1);
  EXPECT_EQ(reader.bad().first()[0].reason, "no global_step, and step differs from it in other lines");
  const auto wandb_log = log_of(
      {R"({"_step":0,"train/global_step":10,"train/loss":4})", R"({"_step":1,"train/global_step":10,"eval/loss":3})"});
  EXPECT_EQ(value(wandb_log, Metric::val_loss, 10), 3.0f);
}

TEST(ImportNames, ObjectsAreNamesThatAreJoinedWithDots) {
  const auto reader = log_of(
      {R"({"global_step":3,"train":{"loss":2.5,"lr":0.1},"eval":{"loss":3},"moe":{"layer_1":{"max_vio":0.5}}})",
       R"({"train":{"global_step":4,"loss":2,"other":7}})", R"({"step":6,"tokens_per_expert":{"layer_1":[1,2,3,4]}})"});
  EXPECT_EQ(reader.bad().count(), 0) << reader.bad().text();
  EXPECT_EQ(value(reader, Metric::ce_loss, 3), 2.5f);
  EXPECT_EQ(value(reader, Metric::lr, 3), 0.1f);
  EXPECT_EQ(value(reader, Metric::val_loss, 3), 3.0f);
  EXPECT_EQ(value(reader, Metric::max_vio, 3, 1), 0.5f);
  EXPECT_EQ(value(reader, Metric::ce_loss, 4), 2.0f);
  EXPECT_EQ(reader.history()->frame_at(6)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{1, 2, 3, 4}));
  ASSERT_EQ(reader.remarks().size(), 1u);
  EXPECT_EQ(reader.remarks()[0], "not shown: train.other");
  EXPECT_EQ(value(log_of({R"({"step":5,"metrics":{"loss":1}})"}), Metric::ce_loss, 5), 1.0f);
  EXPECT_EQ(value(log_of({R"({"step":7,"loss":{"train":0.5,"val":0.75}})"}), Metric::val_loss, 7), 0.75f);
}

TEST(ImportNames, RunsMayHaveNamesInPlaceOfNumbers) {
  const auto reader = log_of({R"({"run":"a","step":0,"loss":4})", R"({"run":"b","step":0,"loss":3})",
                              R"({"run":"a","step":1,"loss":2})", R"({"run":"b","step":1,"loss":1})"});
  ASSERT_EQ(reader.histories().size(), 2u);
  EXPECT_EQ(reader.histories()[1]->info().name, "b");
  EXPECT_EQ(reader.histories()[0]->value_at(Metric::ce_loss, kWholeRun, 1), 2.0f);
  EXPECT_EQ(reader.histories()[1]->info().run, 1);
  EXPECT_EQ(reader.histories()[1]->value_at(Metric::ce_loss, kWholeRun, 0), 3.0f);
  EXPECT_TRUE(reader.remarks().empty());
}

TEST(ImportNames, AValueThatComesAgainAtItsStepIsTold) {
  const auto reader = log_of({R"({"step":0,"loss":4})", R"({"step":0,"loss":3})", R"({"step":0,"loss":2,"lr":0.1})"});
  EXPECT_EQ(value(reader, Metric::ce_loss, 0), 2.0f);
  ASSERT_EQ(reader.remarks().size(), 1u);
  EXPECT_EQ(reader.remarks()[0],
            "step 0: \"loss\" was logged again (and 1 more such values): the last value of a step is shown");
}

// In lines that are shuffled or in falling order, the steps that would be dropped were no earlier attempt.
TEST(ImportNames, LinesInNoOrderOfStepsAreRefused) {
  LogReader falling("here.jsonl"), shuffled("here.jsonl");
  for (int step = 9; step >= 0; --step) falling.read_line("{\"step\":" + std::to_string(step) + ",\"loss\":1}");
  for (const int step : {6, 7, 3, 4, 0, 5, 9, 2, 1, 8})
    shuffled.read_line("{\"step\":" + std::to_string(step) + ",\"loss\":1}");
  for (LogReader* reader : {&falling, &shuffled})
    EXPECT_TRUE(says(problem_of([&] { reader->finish(); }), "not in the order of their steps"));
  LogReader crashes("here.jsonl");  // three attempts, each from a checkpoint
  for (const int step : {0, 10, 20, 30, 10, 20, 30, 40, 0, 10, 20})
    crashes.read_line("{\"step\":" + std::to_string(step) + ",\"loss\":1}");
  EXPECT_EQ(crashes.finish().runs.size(), 1u);
}

TEST(ImportNames, AFileWithoutAKnownNameIsRefusedWithThoseItHas) {
  const auto path = std::filesystem::temp_directory_path() / "moescope_unknown_names.jsonl";
  write_bytes(path, "{\"step\":0,\"reward\":1,\"gpu\":{\"power\":3}}\n{\"step\":1,\"reward\":2}\n");
  const std::string problem = problem_of([&] { import_jsonl(path.string()); });
  EXPECT_NE(problem.find("none of its names is known: gpu.power, reward. A mapping file"), std::string::npos)
      << problem;
  write_bytes(path, "{\"step\":0,\"reward\":1}\n{\"step\":1,\"loss\":2}\n");
  EXPECT_EQ(import_jsonl(path.string()).runs.at(0)->steps(), (StepRange{0, 1}));
  std::filesystem::remove(path);
}

// If a mapping file does not name the step, the built-in names of the step apply.
TEST(ImportNames, AMappingNeedNotNameTheStep) {
  const auto folder = std::filesystem::temp_directory_path() / "moescope_mapping";
  write_bytes(folder / "tags.toml", "[[tag]]\npattern = \"reward\"\nmeans = \"ce_loss\"\n");
  write_bytes(folder / "run.jsonl", "{\"step\":0,\"reward\":3}\n{\"global_step\":1,\"reward\":2}\n");
  ImportOptions options;
  options.tags = (folder / "tags.toml").string();
  const auto run = import_jsonl((folder / "run.jsonl").string(), options).runs.at(0);
  EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 1), 2.0f);
  std::filesystem::remove_all(folder);
}

TEST(ImportNames, ReasonsAreTrue) {
  const auto reader = log_of({R"({"step":0,"loss":1})", R"({"step":9007199254740993,"loss":1})",
                              R"({"step":2.5,"loss":1})", R"({"step":4,"tokens_per_expert":[[2,-1]]})"});
  ASSERT_EQ(reader.bad().count(), 3);
  EXPECT_EQ(reader.bad().first()[0].reason, "step: 9007199254740993 is more than 1000000000000000");
  EXPECT_EQ(reader.bad().first()[1].reason, "step: 2.5 is not a whole number from 0 on");
  EXPECT_EQ(reader.bad().first()[2].reason, "tokens_per_expert: -1 is no load of an expert");
}

TEST(ImportNames, LoadsThatCannotBeReadDoNotCostTheLoss) {
  for (const char* loads : {R"("tokens_per_expert":[[1,2],[1]])", R"("tokens_per_expert":[[1,-2]])",
                            R"("tokens_per_expert":{"a":1})", R"("layer_1/expert_0":-1,"layer_1/expert_1":-1)"}) {
    const auto reader = log_of(
        {R"({"step":0,"loss":5,)" + std::string(loads) + "}", R"({"step":1,"loss":4,)" + std::string(loads) + "}"});
    EXPECT_EQ(reader.bad().count(), 2) << loads;
    EXPECT_EQ(value(reader, Metric::ce_loss, 0), 5.0f) << loads;
    EXPECT_EQ(value(reader, Metric::ce_loss, 1), 4.0f) << loads;
    EXPECT_TRUE(reader.remarks().empty()) << "no other name of the loss is preferred";
    EXPECT_TRUE(reader.history()->info().moe_layers.empty() || reader.history()->frame_at(1)->routers.empty()) << loads;
  }
}

TEST(ImportNames, SharesUnderANameOfCountsAreSharesIfTheyAddUpToOne) {
  const auto shares = log_of({R"({"step":0,"tokens_per_expert":[[0.25,0.75],[0.5,0.5]]})"});
  EXPECT_EQ(shares.bad().count(), 0);
  EXPECT_EQ(shares.history()->frame_at(0)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{5000, 15000}));
}

TEST(ImportNames, LoadsInAnObjectOfLayers) {
  for (const char* names : {R"("1":[5,6],"3":[7,8])", R"("layer_1":[5,6],"layer_3":[7,8])",
                            R"("model.layers.1.mlp":[5,6],"model.layers.3.mlp":[7,8])"}) {
    const auto reader = log_of({R"({"step":0,"loss":5,"tokens_per_expert":{)" + std::string(names) + "}}"});
    ASSERT_EQ(reader.bad().count(), 0) << names;
    EXPECT_EQ(reader.history()->info().moe_layers, (std::vector<int>{1, 3})) << names;
    EXPECT_EQ(reader.history()->frame_at(0)->routers.at(1).tokens_per_expert, (std::vector<std::uint32_t>{7, 8}));
  }
}

TEST(ImportNames, AStepMayBeSplitIntoALineForEachExpert) {
  LogReader reader("here.jsonl");
  for (int step = 0; step < 3; ++step) {
    const std::string begin = "{\"step\":" + std::to_string(step) + ",\"";
    for (int layer = 1; layer < 3; ++layer)
      for (int expert = 0; expert < 3; ++expert)
        reader.read_line(begin + "layer_" + std::to_string(layer) + "/expert_" + std::to_string(expert) +
                         "/load\":" + std::to_string(10 * layer + expert + step) + "}");
    reader.read_line(begin + "loss\":" + std::to_string(5 - step) + "}");
  }
  reader.finish_step();
  EXPECT_EQ(reader.bad().count(), 0) << reader.bad().text();
  ASSERT_NE(reader.history(), nullptr);
  EXPECT_EQ(reader.history()->info().moe_layers, (std::vector<int>{1, 2}));
  for (int step = 0; step < 3; ++step) {
    const auto frame = reader.history()->frame_at(step);
    const auto first = static_cast<std::uint32_t>(20 + step);
    EXPECT_EQ(frame->routers.at(1).tokens_per_expert, (std::vector<std::uint32_t>{first, first + 1, first + 2}));
    EXPECT_EQ(frame->ce_loss, static_cast<float>(5 - step));
  }
}

TEST(ImportNames, ALineMayHaveTheNameAndTheValueOfOneFigure) {
  const auto reader = log_of({R"({"step":0,"metric":"loss","value":5})", R"({"step":0,"metric":"fun","value":1})",
                              R"({"step":1,"metric":"loss","value":4})"});
  EXPECT_EQ(reader.bad().count(), 0) << reader.bad().text();
  EXPECT_EQ(value(reader, Metric::ce_loss, 0), 5.0f);
  EXPECT_EQ(value(reader, Metric::ce_loss, 1), 4.0f);
}

// A layer without loads in the first step once set the number of experts to 0, which damaged the recording of the run.
TEST(ImportNames, ALayerWithoutLoadsIsNoneOfZeroExperts) {
  for (const char* line : {R"({"step":0,"loss":5,"tokens_per_expert":[[],[1,2,3]]})",
                           R"({"step":0,"loss":5,"tokens_per_expert":[null,[1,2,3]]})",
                           R"({"step":0,"loss":5,"routers":[{"layer":1,"tokens_per_expert":[1,2,3]},)"
                           R"({"layer":0,"tokens_per_expert":[]}]})"}) {
    const auto reader = log_of({line});
    ASSERT_EQ(reader.bad().count(), 0) << line << reader.bad().text();
    EXPECT_EQ(reader.history()->info().n_experts, 3) << line;
    const auto frame = reader.history()->frame_at(0);
    EXPECT_TRUE(frame->routers.at(0).tokens_per_expert.empty()) << line;
    EXPECT_EQ(frame->routers.at(1).tokens_per_expert, (std::vector<std::uint32_t>{1, 2, 3})) << line;
  }
  const auto layers =
      log_of({R"({"step":0,"layer":0,"tokens_per_expert":[]})", R"({"step":0,"layer":1,"tokens_per_expert":[1,2,3]})",
              R"({"step":0,"layer":2,"tokens_per_expert":[1,2]})"});
  EXPECT_EQ(layers.history()->info().n_experts, 3);
  EXPECT_EQ(layers.bad().count(), 1) << "two experts";
}

TEST(ImportNames, AValidationsLossIsNotThatOfTheTraining) {
  for (const char* key : {"split", "phase", "mode", "event"}) {
    const std::string key_text = "\"" + std::string(key) + "\":\"";
    const auto reader =
        log_of({"{\"step\":0," + key_text + "train\",\"loss\":5,\"tokens_per_expert\":[[1,2]]}",
                "{\"step\":0," + key_text + "Val\",\"loss\":6,\"tokens_per_expert\":[[9,9]]}",
                "{\"step\":0," + key_text + "test\",\"loss\":7}", "{\"step\":1," + key_text + "train\",\"loss\":4}"});
    EXPECT_EQ(value(reader, Metric::ce_loss, 0), 5.0f) << key;
    EXPECT_EQ(value(reader, Metric::val_loss, 0), 6.0f) << key;
    EXPECT_EQ(reader.history()->frame_at(0)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{1, 2}));
  }
}

}  // namespace
}  // namespace moescope
