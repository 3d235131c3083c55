// Files of W&B, written here as its datastore and protobuf messages define them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "core/findings/comparison/same_settings.h"
#include "core/logs/file_kind.h"
#include "core/logs/log_readers.h"
#include "core/logs/open_runs.h"
#include "core/logs/runs_in_folder.h"
#include "tests/support/event_bytes.h"
#include "tests/support/problem_of.h"
#include "tests/support/wandb_bytes.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

class WandbFiles : public testing::Test {
 protected:
  WandbFiles() : root_(fs::temp_directory_path() / ("moescope_wandb_" + std::to_string(::getpid()))) {}
  ~WandbFiles() override { fs::remove_all(root_); }
  std::string put(const std::string& name, const std::vector<std::string>& records) const {
    write_bytes(root_ / name, wandb_file(records));
    return (root_ / name).string();
  }
  std::shared_ptr<History> read(const std::vector<std::string>& records) const {
    return import_wandb(put("run-a.wandb", records)).runs.at(0);
  }
  static float loss(const History& history, std::int64_t step) {
    return history.values(Metric::ce_loss, kWholeRun, {step, step})[0];
  }
  static bool notes_say(const History& history, const std::string& words) {
    for (const Marker& marker : history.markers())
      if (marker.kind == "event" && marker.text.find(words) != std::string::npos) return true;
    return false;
  }
  const fs::path root_;
};

TEST_F(WandbFiles, SettingsAreTheConfigAndNotTheSummary) {
  const std::string config = pb_bytes(4, wandb_items(1, {{"lr", "0.003"}, {"top_k", "4"}, {"old", "1"}}));
  const std::string summary = pb_bytes(5, wandb_items(1, {{"train/loss", "9.99"}, {"_runtime", "12"}}));
  const auto run = read({wandb_run("a", "moe", config + summary), wandb_row(0, {{"train/loss", "3"}}),
                         pb_bytes(5, wandb_items(1, {{"precision", "\"mxfp8\""}}) + pb_bytes(2, pb_bytes(1, "old")))});
  EXPECT_EQ(run->settings_at_start()->log(),
            (std::map<std::string, std::string>{{"lr", "0.003"}, {"top_k", "4"}, {"precision", "mxfp8"}}));
  EXPECT_EQ(loss(*run, 0), 3.0f);
}

TEST_F(WandbFiles, StepsAreThoseOfTheAxisThatTheRunDefines) {
  std::vector<std::string> records = {wandb_run("a", "hf"), wandb_metric("train/global_step", "", ""),
                                      wandb_metric("", "*", "train/global_step")};
  std::int64_t row = 0;
  for (const int step : {10, 20, 30}) {
    const std::string axis = std::to_string(step);
    records.push_back(wandb_row(row++, {{"train/loss", std::to_string(step / 10)}, {"train/global_step", axis}}));
    if (step == 20) records.push_back(wandb_row(row++, {{"eval/loss", "2.5"}, {"train/global_step", axis}}));
  }
  const auto run = read(records);
  EXPECT_EQ(run->steps(), (StepRange{10, 30}));
  EXPECT_EQ(loss(*run, 30), 3.0f);
  EXPECT_EQ(run->values(Metric::val_loss, kWholeRun, {20, 20})[0], 2.5f);
  EXPECT_TRUE(notes_say(*run, "Steps are the values of train/global_step"));
}

TEST_F(WandbFiles, TheAxisOfTheLossCountsAndOthersAreShownAtItsStep) {
  const auto run =
      read({wandb_run("a", "x"), wandb_metric("", "train/*", "train/step"), wandb_metric("eval/loss", "", "epoch"),
            wandb_metric("", "*", "_step"), wandb_row(0, {{"train/loss", "3"}, {"train/step", "100"}}),
            wandb_row(1, {{"eval/loss", "3.5"}, {"epoch", "1"}}),
            wandb_row(2, {{"train/loss", "2"}, {"train/step", "200"}, {"epoch", "1"}})});
  EXPECT_EQ(run->steps(), (StepRange{100, 200}));
  EXPECT_EQ(run->values(Metric::val_loss, kWholeRun, {100, 100})[0], 3.5f) << "at the newest step of the training";
}

TEST_F(WandbFiles, AnAxisThatIsNotWholeIsNoAxis) {
  const auto run = read({wandb_run("a", "x"), wandb_metric("", "*", "train/epoch"),
                         wandb_row(0, {{"train/loss", "3"}, {"train/epoch", "0.1"}}),
                         wandb_row(1, {{"train/loss", "2"}, {"train/epoch", "0.2"}})});
  EXPECT_EQ(run->steps(), (StepRange{0, 1}));
  EXPECT_TRUE(notes_say(*run, "train/epoch, the step metric of the run, is not a whole number"));
}

TEST_F(WandbFiles, RowsBeforeTheFirstValueOfTheAxisHaveNoStep) {
  const Imported log = import_wandb(
      put("run-a.wandb", {wandb_run("a", "x"), wandb_metric("", "*", "gs"), wandb_row(0, {{"train/loss", "5"}}),
                          wandb_row(1, {{"train/loss", "3"}, {"gs", "10"}}), wandb_row(2, {{"train/loss", "2"}})}));
  EXPECT_EQ(log.runs.at(0)->steps(), (StepRange{10, 10}));
  EXPECT_EQ(loss(*log.runs[0], 10), 2.0f);
  ASSERT_EQ(log.bad.count(), 1);
  EXPECT_NE(log.bad.first()[0].reason.find("train/loss: comes before the first value of gs"), std::string::npos);
}

TEST_F(WandbFiles, ADefinitionThatIsOverwrittenTakesItsAxisAway) {
  const auto steps = [&](bool overwrites) {
    const std::string second_definition =
        pb_bytes(12, pb_bytes(1, "train/loss") + (overwrites ? pb_bytes(9, pb_number(1, 1)) : std::string()));
    return read({wandb_run("a", "x"), wandb_metric("train/loss", "", "gs"), second_definition,
                 wandb_row(0, {{"train/loss", "3"}, {"gs", "100"}}),
                 wandb_row(1, {{"train/loss", "2"}, {"gs", "200"}})})
        ->steps();
  };
  EXPECT_EQ(steps(false), (StepRange{100, 200})) << "definitions are merged";
  EXPECT_EQ(steps(true), (StepRange{0, 1}));
}

TEST_F(WandbFiles, ObjectsAreKeysThatAreJoinedWithDots) {
  const auto run = read({wandb_run("a", "x"), wandb_metric("train.loss", "", "train.step"),
                         wandb_row(0, {{"train", R"({"loss": 3, "step": 7, "a": {"b": {"c": {}}}})"},
                                       {"moe", R"({"layer_1": {"tokens_per_expert": [1, 3]}})"}}),
                         wandb_row(1, {{"train", R"({"loss": NaN, "step": 8})"}, {"broken", "{\"loss\":"}})});
  EXPECT_EQ(run->steps(), (StepRange{7, 8}));
  EXPECT_EQ(loss(*run, 7), 3.0f);
  EXPECT_EQ(run->frame_at(7)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{1, 3}));
}

TEST_F(WandbFiles, AHistogramOfExpertNumbersIsTheLoadOfEach) {
  const auto histogram = [](const char* limits, const char* counts) {
    return std::string(R"({"_type": "histogram", "bins": )") + limits + R"(, "values": )" + counts + "}";
  };
  const Imported log = import_wandb(put(
      "run-a.wandb",
      {wandb_run("a", "x"),
       wandb_row(0, {{"loss", "1"}, {"tokens_per_expert", histogram("[0, 0.75, 1.5, 2.25, 3]", "[40, 0, 50, 60]")}}),
       wandb_row(1, {{"loss", "1"}, {"tokens_per_expert", histogram("[0, 2, 4]", "[4, 5]")}}),
       wandb_row(2, {{"loss", "1"}, {"tokens_per_expert", histogram("[0, 1]", "[4, 5]")}}),
       wandb_row(3, {{"loss", "1"}, {"tokens_per_expert", R"({"_type": "table-file"})"}})}));
  const History& run = *log.runs.at(0);
  EXPECT_EQ(run.frame_at(0)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{40, 0, 50, 60}));
  EXPECT_EQ(run.steps(), (StepRange{0, 3}));
  ASSERT_EQ(log.bad.count(), 3);
  EXPECT_NE(log.bad.first()[0].reason.find("a bucket of more than one expert"), std::string::npos);
  EXPECT_NE(log.bad.first()[1].reason.find("buckets without limits"), std::string::npos);
  EXPECT_NE(log.bad.first()[2].reason.find("neither a number nor a list nor a histogram"), std::string::npos);
}

// wandb.Histogram(loads) counts the experts by load: it has as many values as there are experts.
TEST_F(WandbFiles, AHistogramOfLoadsIsNoLoad) {
  const std::string loads =
      R"({"_type": "histogram", "bins": [100, 100.75, 101.5, 102.25, 103], "values": [7, 9, 10, 6]})";
  const Imported log =
      import_wandb(put("run-a.wandb", {wandb_run("a", "x"), wandb_row(0, {{"loss", "1"}, {"expert_counts", loads}})}));
  EXPECT_EQ(log.runs.at(0)->info().n_experts, 0);
  EXPECT_NE(log.bad.text().find("it seems to be of the loads"), std::string::npos) << log.bad.text();
}

TEST_F(WandbFiles, AResumedRunContinuesWhereItWasRewoundTo) {
  std::vector<std::string> records = {wandb_run("a", "x")};
  for (int step = 0; step < 30; ++step) records.push_back(wandb_row(step, {{"loss", "5"}}));
  records.push_back(wandb_run("a", "x", pb_bytes(23, pb_bytes(1, "a") + pb_double(2, 19) + pb_bytes(3, "_step"))));
  EXPECT_EQ(read(records)->steps(), (StepRange{0, 19}));
  records.pop_back();
  for (int step = 20; step < 25; ++step) records.push_back(wandb_row(step, {{"loss", "4"}}));
  const auto run = read(records);
  EXPECT_EQ(run->steps(), (StepRange{0, 24}));
  EXPECT_EQ(loss(*run, 19), 5.0f);
  EXPECT_EQ(loss(*run, 20), 4.0f);
  EXPECT_TRUE(notes_say(*run, "continues from step 20"));
}

TEST_F(WandbFiles, PartsOfARunAreOneRun) {
  const auto part = [&](const std::string& folder, const std::string& id, int first, int last, const char* value) {
    std::vector<std::string> records = {wandb_run(id, "pretrain")};
    for (int step = first; step <= last; ++step) records.push_back(wandb_row(step, {{"train/loss", value}}));
    return put("wandb/" + folder + "/run-" + id + ".wandb", records);
  };
  const std::string later = part("offline-run-20250218_184624-f2yl", "f2yl", 20, 39, "4");
  const std::string earlier = part("run-20250218_134501-f2yl", "f2yl", 0, 29, "5");
  fs::create_directory_symlink(fs::path(later).parent_path(), root_ / "wandb/latest-run");
  for (const std::string& path :
       {later, earlier, fs::path(earlier).parent_path().string(), (root_ / "wandb").string()}) {
    ASSERT_EQ(file_kind(path), FileKind::wandb_run) << path;
    const OpenedRuns opened = open_runs({path}, {}, 4);
    ASSERT_EQ(opened.histories.size(), 1u) << path;
    const History& run = *opened.histories[0];
    EXPECT_EQ(run.steps(), (StepRange{0, 39}));
    EXPECT_EQ(loss(run, 10), 5.0f);
    EXPECT_EQ(loss(run, 25), 4.0f);
    EXPECT_TRUE(notes_say(run, "2 parts"));
  }
  part("offline-run-20250219_000000-b", "b", 0, 3, "1");
  EXPECT_EQ(open_runs({(root_ / "wandb").string()}, {}, 4).histories.size(), 2u);
  ImportOptions options;
  options.most_runs = 1;
  EXPECT_NE(problem_of([&] {
              import_wandb((root_ / "wandb").string(), options);
            }).find("--run NAME chooses one of: pretrain, pretrain (b)"),
            std::string::npos);
  options.only = {"pretrain (b)"};
  EXPECT_EQ(import_wandb((root_ / "wandb").string(), options).runs.at(0)->steps(), (StepRange{0, 3}));
  const auto runs = runs_in_folder(root_.string());
  ASSERT_EQ(runs.size(), 2u) << "parts are one entry";
}

TEST_F(WandbFiles, LoadsKeepTheirDigits) {
  const auto run = read({wandb_run("a", "x"), wandb_row(0, {{"tokens_per_expert", "[[16777217, 3], [4, 5]]"}})});
  EXPECT_EQ(run->frame_at(0)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{16777217, 3}));
}

TEST_F(WandbFiles, ASmallFileDoesNotFillTheMemory) {
  std::vector<std::string> records = {wandb_run("a", "x")};
  for (int step = 0; step < 3000; ++step)
    records.push_back(wandb_row(step, {{"tokens_per_expert/layer_1/expert_65535", "1"}}));
  EXPECT_NE(problem_of([&] { read(records); }).find("more than can be shown"), std::string::npos);
}

TEST_F(WandbFiles, FoldersFurtherUpHoldTheSameRuns) {
  const auto add = [&](const std::string& folder, const std::string& id) {
    put(folder + "/run-" + id + ".wandb", {wandb_run(id, "run " + id), wandb_row(0, {{"loss", "3"}, {"my.key", "1"}})});
  };
  add("project/wandb/run-20250101_000000-a", "a");
  add("project/wandb/run-20250102_000000-b", "b");
  fs::create_directory_symlink("run-20250102_000000-b", root_ / "project/wandb/latest-run");
  for (const char* folder : {"project/wandb", "project", "."}) {
    const std::string path = (root_ / folder).string();
    ASSERT_EQ(file_kind(path), FileKind::wandb_run) << folder;
    const OpenedRuns opened = open_runs({path}, {}, 4);
    ASSERT_EQ(opened.histories.size(), 2u) << folder;
    EXPECT_EQ(opened.histories[1]->info().name, "run b");
    ASSERT_EQ(opened.remarks.size(), 1u);
    EXPECT_NE(opened.remarks[0].find("not shown: my.key"), std::string::npos) << opened.remarks[0];
  }
}

TEST_F(WandbFiles, ZerosAtTheEndAreNoRecords) {
  const std::string path = put("run-z.wandb", {wandb_run("z", "zeros"), wandb_row(0, {{"loss", "3"}})});
  std::ofstream(path, std::ios::binary | std::ios::app) << std::string(70000, '\0');
  const Imported imported = import_wandb(path);
  EXPECT_EQ(imported.bad.count(), 0) << imported.bad.text();
  EXPECT_EQ(loss(*imported.runs.at(0), 0), 3.0f);
}

}  // namespace
}  // namespace moescope
