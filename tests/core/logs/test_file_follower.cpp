#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/logs/follower.h"
#include "tests/support/soon.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMaxRunsShown = 4;

class FollowedFile : public testing::Test {
 protected:
  FollowedFile() : root_(fs::temp_directory_path() / ("moescope_followed_" + std::to_string(::getpid()))) {
    fs::create_directories(root_);
  }
  ~FollowedFile() override { fs::remove_all(root_); }
  std::string append(const fs::path& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::app) << text << std::flush;
    return (root_ / name).string();
  }
  fs::path root_;
};

std::int64_t last_step(const Follower& follower) {
  const auto histories = follower.histories();
  return histories.empty() ? -1 : histories[0]->steps().last;
}

std::string routed(int step, int layer) {
  return R"({"step":)" + std::to_string(step) + R"(,"layer":)" + std::to_string(layer) +
         R"(,"topk":1,"num_tokens":2,"top_indices":[[0],[1]]})" + "\n";
}

TEST_F(FollowedFile, ATableThatLostItsHeaderGoesOn) {
  const std::string path = append("metrics.csv", "step,loss\n0,5\n1,4\n");
  const auto follower = std::make_unique<Follower>(path, 0, kMaxRunsShown);
  ASSERT_TRUE(soon([&] { return last_step(*follower) == 1; })) << follower->problem();
  fs::resize_file(path, 0);
  ASSERT_TRUE(soon([&] { return !follower->problem().empty(); }));
  append("metrics.csv", "2,3\n");
  ASSERT_TRUE(soon([&] { return last_step(*follower) == 2; })) << follower->problem();
  EXPECT_EQ(follower->problem(), "");
  append("metrics.csv", "3,2\n");
  ASSERT_TRUE(soon([&] { return last_step(*follower) == 3; }));
  const auto history = follower->histories()[0];
  EXPECT_EQ(history->count(), 4);
  EXPECT_EQ(history->value_at(Metric::ce_loss, kWholeRun, 0), 5.0f);
  EXPECT_EQ(history->value_at(Metric::ce_loss, kWholeRun, 3), 2.0f);
  EXPECT_EQ(follower->restart_remarks(), (std::vector{truncated_text(1), kept_text(1)}));
}

TEST_F(FollowedFile, ATableThatBeginsAgainIsSaid) {
  const std::string path = append("metrics.csv", "step,loss\n0,5\n1,4\n2,3\n");
  const auto follower = std::make_unique<Follower>(path, 0, kMaxRunsShown);
  ASSERT_TRUE(soon([&] { return last_step(*follower) == 2; })) << follower->problem();
  std::ofstream(path) << "step,loss\n0,9\n";
  ASSERT_TRUE(soon([&] { return last_step(*follower) == 0; })) << follower->problem();
  EXPECT_EQ(follower->restart_remarks(), (std::vector{truncated_text(2), dropped_text(2)}));
}

TEST_F(FollowedFile, ATableThatDoesNotExistYetIsATable) {
  const auto follower = std::make_unique<Follower>((root_ / "metrics.csv").string(), 0, kMaxRunsShown);
  ASSERT_TRUE(soon([&] { return !follower->problem().empty(); }));
  append("metrics.csv", "step,loss\n0,5\n");
  EXPECT_TRUE(soon([&] { return last_step(*follower) == 0; })) << follower->problem();
}

TEST_F(FollowedFile, TheLastRowNeedsNoNewlineWhenItsWriterHasClosedTheFile) {
  std::ofstream table(root_ / "metrics.csv");
  table << "step,loss\n0,5\n1,4" << std::flush;
  const auto follower = std::make_unique<Follower>((root_ / "metrics.csv").string(), 0, kMaxRunsShown);
  ASSERT_TRUE(soon([&] { return last_step(*follower) == 0; })) << follower->problem();
  std::this_thread::sleep_for(2 * kSettleAfter);
  EXPECT_EQ(last_step(*follower), 0) << "its writer may go on";
  table.close();
  EXPECT_TRUE(soon([&] { return last_step(*follower) == 1; })) << follower->problem();
}

TEST_F(FollowedFile, TheLastRowIsReadAtTheEnd) {
  std::ofstream table(root_ / "metrics.csv");
  table << "step,loss\n0,5\n1,4" << std::flush;
  const auto follower = std::make_unique<Follower>((root_ / "metrics.csv").string(), 0, kMaxRunsShown);
  ASSERT_TRUE(soon([&] { return last_step(*follower) == 0; })) << follower->problem();
  follower->finish();
  EXPECT_EQ(last_step(*follower), 1);
}

TEST_F(FollowedFile, ATraceOfSeveralRanksGrows) {
  append("router_trace_rank0.jsonl", routed(7, 0));
  const auto follower = std::make_unique<Follower>(root_.string(), 2, kMaxRunsShown);
  ASSERT_TRUE(soon([&] { return last_step(*follower) == 7; })) << follower->problem();
  EXPECT_EQ(follower->amount(), "up to step 7");
  EXPECT_EQ(follower->histories()[0]->info().run, 2);
  const auto before = follower->histories()[0];
  append("router_trace_rank0.jsonl", routed(8, 0));
  append("router_trace_rank1.jsonl", routed(8, 0) + R"({"step":9,)");
  ASSERT_TRUE(soon([&] {
    return last_step(*follower) == 8 && follower->histories()[0]->frame_at(8)->routers[0].tokens_per_expert[0] == 2;
  }));
  EXPECT_EQ(before->steps().last, 7) << "what was shown stays whole";
  EXPECT_EQ(follower->bad().count(), 0) << "half a line, of which the rest is to come";
  append("router_trace_rank1.jsonl", "\n");
  EXPECT_TRUE(soon([&] { return follower->bad().count() == 1; })) << follower->bad().text();
}

TEST_F(FollowedFile, StatisticsOfTransformerEngineGrow) {
  const auto line = [](int iteration) {
    return "INFO - layers.0.mlp.fc1_activation_mxfp8_underflows%  iteration=00000" + std::to_string(iteration) +
           "  value=1.5\n";
  };
  const std::string path = append("nvdlfw_inspect_globalrank-0.log", line(1));
  const auto follower = std::make_unique<Follower>(path, 0, kMaxRunsShown);
  ASSERT_TRUE(soon([&] { return last_step(*follower) == 1; })) << follower->problem();
  append("nvdlfw_inspect_globalrank-0.log", line(2) + line(3));
  EXPECT_TRUE(soon([&] { return last_step(*follower) == 3; }));
}

TEST_F(FollowedFile, ATableGrowsAndIsWrittenAnew) {
  const std::string header = "step,layer,expert,count\n";
  const std::string table = append("loads.csv", header + "0,0,0,5\n0,0,1,5\n");
  const auto follower = std::make_unique<Follower>(table, 0, kMaxRunsShown);
  ASSERT_TRUE(soon([&] { return last_step(*follower) == 0; })) << follower->problem();
  append("loads.csv", "1,0,0,1");
  std::this_thread::sleep_for(kSettleAfter / 2);
  EXPECT_EQ(last_step(*follower), 0) << "half a line, of which the rest is to come";
  append("loads.csv", "2\n1,0,1,7\n");
  const auto load = [&](std::int64_t step) {
    return follower->histories()[0]->frame_at(step)->routers[0].tokens_per_expert;
  };
  ASSERT_TRUE(soon([&] { return last_step(*follower) == 1; }));
  EXPECT_EQ(load(1), (std::vector<std::uint32_t>{12, 7}));
  std::ofstream(table, std::ios::trunc) << header << "0,0,0,5\n0,0,1,6\n1,0,0,3\n1,0,1,4\n2,0,0,1\n";
  ASSERT_TRUE(soon([&] { return last_step(*follower) == 2; }));
  EXPECT_EQ(load(0), (std::vector<std::uint32_t>{5, 6})) << "nothing of the one before";
}

TEST_F(FollowedFile, KeepsWhatItReadWhenTheFileIsGone) {
  const std::string path = append("router_trace_rank0.jsonl", routed(0, 0));
  const auto follower = std::make_unique<Follower>(path, 0, kMaxRunsShown);
  ASSERT_TRUE(soon([&] { return last_step(*follower) == 0; }));
  EXPECT_EQ(follower->problem(), "");
  fs::remove(path);
  EXPECT_TRUE(soon([&] { return !follower->problem().empty(); }));
  EXPECT_EQ(last_step(*follower), 0);
}

TEST_F(FollowedFile, JsonLinesAreReadOnEvenBeforeTheyAreThere) {
  const auto follower = std::make_unique<Follower>((root_ / "run.jsonl").string(), 0, kMaxRunsShown);
  append("run.jsonl", R"({"step":0,"loss":2})"
                      "\n");
  EXPECT_TRUE(soon([&] { return last_step(*follower) == 0; }));
  EXPECT_EQ(follower->amount(), "1 line");
}

}  // namespace
}  // namespace moescope
