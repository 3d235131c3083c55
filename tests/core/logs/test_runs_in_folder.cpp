// The runs of a folder: the files that count, the files that make up one run, and the order of the runs.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "core/logs/runs_in_folder.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

class RunsInFolder : public testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  // Writes a file that is a minute newer than the previous one.
  void put(const std::string& name, const std::string& bytes) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    fs::last_write_time(folder_ / name, start_ += std::chrono::minutes(1));
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const RunFile& run : runs_in_folder(folder_.string()))
      names.push_back(fs::path(run.path).lexically_relative(folder_).string() + ": " + file_kind_name(run.kind));
    return names;
  }

  const fs::path folder_ = fs::temp_directory_path() / "moescope_runs_in_folder";
  fs::file_time_type start_ = fs::file_time_type::clock::now() - std::chrono::hours(1);
  const std::string step_ = R"({"step":0,"loss":1})";
};

TEST_F(RunsInFolder, AreListedNewestFirst) {
  put("old.jsonl", step_);
  put("below/loads.csv", "step,layer,expert,count\n0,1,2,3\n");
  put("new.jsonl", step_);
  put("notes.txt", step_);                   // not named like a run
  put("prices.csv", "apples,pears\n1,2\n");  // not a run by its content
  put("packed.jsonl", "\x1f\x8b\x08");
  EXPECT_EQ(names(), (std::vector<std::string>{"new.jsonl: training log", "below/loads.csv: table of a run",
                                               "old.jsonl: training log"}));
  const std::vector<RunFile> runs = runs_in_folder(folder_.string());
  EXPECT_EQ(runs.front().bytes, step_.size());
}

TEST_F(RunsInFolder, FilesOfOneRunAreOneEntry) {
  put("traces/router_trace_rank0.jsonl", "{}");
  put("tb/first/events.out.tfevents.1", "1234");
  put("traces/router_trace_rank1.jsonl", "{}");
  put("tb/first/events.out.tfevents.2", "12345678");
  EXPECT_EQ(names(), (std::vector<std::string>{"tb/first: TensorBoard events", "traces: router trace"}));
  EXPECT_EQ(runs_in_folder(folder_.string()).front().bytes, 12u);
}

TEST_F(RunsInFolder, WithoutRunsOrWithoutTheFolderThereIsNone) {
  put("prose.txt", "Once upon a time");
  EXPECT_TRUE(names().empty());
  EXPECT_TRUE(runs_in_folder((folder_ / "missing").string()).empty());
}

TEST_F(RunsInFolder, PartsOfAResumedRunOfWandbAreOneEntry) {
  const std::string wandb(":W&B\xe1\xbe\0", 7);
  put("wandb/offline-run-20250101_000000-a/run-a.wandb", wandb);
  put("wandb/offline-run-20250102_000000-b/run-b.wandb", wandb);
  put("wandb/offline-run-20250103_000000-a/run-a.wandb", wandb);
  EXPECT_EQ(names(), (std::vector<std::string>{"wandb/offline-run-20250103_000000-a/run-a.wandb: run of W&B",
                                               "wandb/offline-run-20250102_000000-b/run-b.wandb: run of W&B"}));
  EXPECT_EQ(runs_in_folder(folder_.string()).front().bytes, 14u);
}

TEST_F(RunsInFolder, AFolderThatIsNoRunSaysWhichOnesItHolds) {
  put("0/abc/meta.yaml", "run_id: abc\n");
  put("0/abc/metrics/train_loss", "1 3 0\n");
  put("run.jsonl", step_);
  const std::string message = no_runs_in(folder_.string(), FileKind::text);
  EXPECT_NE(message.find("is a folder of 2 runs; open one of them by its name: "), std::string::npos) << message;
  EXPECT_NE(message.find((folder_ / "0/abc").string()), std::string::npos) << message;
  EXPECT_NE(message.find((folder_ / "run.jsonl").string()), std::string::npos) << message;
}

}  // namespace
}  // namespace moescope
