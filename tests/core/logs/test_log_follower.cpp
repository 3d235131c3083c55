#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "core/logs/log_follower.h"
#include "tests/support/soon.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

std::string line(int step, double loss) {
  return R"({"step":)" + std::to_string(step) + R"(,"loss":)" + std::to_string(loss) +
         R"(,"tokens_per_expert":[[1,2,3,4],[4,3,2,1]]})" + "\n";
}

class Follower : public testing::Test {
 protected:
  Follower() : path_(fs::temp_directory_path() / ("moescope_follow_" + std::to_string(::getpid()) + ".jsonl")) {
    fs::remove(path_);
  }
  ~Follower() override { fs::remove(path_); }
  void append(const std::string& text) { std::ofstream(path_, std::ios::binary | std::ios::app) << text << std::flush; }
  static std::int64_t last_step(const LogFollower& follower) {
    const auto histories = follower.histories();
    return histories.empty() ? -1 : histories[0]->steps().last;
  }
  fs::path path_;
};

TEST_F(Follower, WaitsForTheFileAndForTheEndOfALine) {
  const LogFollower follower(path_.string());
  EXPECT_TRUE(soon([&] { return follower.problem() == "No such file or directory"; }));
  EXPECT_TRUE(follower.histories().empty());
  const std::string first = line(0, 5);
  append(first.substr(0, 20));
  EXPECT_TRUE(soon([&] { return follower.problem().empty(); }));
  std::this_thread::sleep_for(LogFollower::kEvery + LogFollower::kSettleAfter);
  EXPECT_TRUE(follower.histories().empty()) << "half a line is no line";
  EXPECT_EQ(follower.lines(), 0);
  append(first.substr(20));
  ASSERT_TRUE(soon([&] { return last_step(follower) == 0; }));
  const auto history = follower.histories()[0];
  for (int step = 1; step <= 20; ++step) append(line(step, 5 - 0.1 * step));
  EXPECT_TRUE(soon([&] { return last_step(follower) == 20; }));
  EXPECT_EQ(follower.histories()[0], history) << "the same history grows";
  EXPECT_FLOAT_EQ(history->value_at(Metric::ce_loss, kWholeRun, 20), 3.0f);
  append("not json\n");
  EXPECT_TRUE(soon([&] { return follower.bad().count() == 1; }));
  EXPECT_EQ(follower.bad().first().front().number, 22);
  EXPECT_EQ(follower.restarts(), 0);
}

// Two runs of one script begin with the same settings.
TEST_F(Follower, BeginsAnewWithAFileThatBeginsAsTheOneBeforeIt) {
  const std::string settings = R"({"run":"one","note":")" + std::string(6000, 'x') + "\"}\n";
  append(settings + line(0, 1) + line(1, 1) + line(2, 1));
  const LogFollower follower(path_.string());
  ASSERT_TRUE(soon([&] { return last_step(follower) == 2; }));
  const auto before = follower.histories()[0];
  std::ofstream(path_, std::ios::binary | std::ios::trunc)
      << settings << line(0, 4) << line(1, 4) << line(2, 4) << line(3, 4) << std::flush;
  ASSERT_TRUE(soon([&] { return last_step(follower) == 3; }));
  EXPECT_EQ(follower.restarts(), 1);
  EXPECT_EQ(before->steps().last, 2);
  EXPECT_FLOAT_EQ(follower.histories()[0]->value_at(Metric::ce_loss, kWholeRun, 1), 4.0f) << "of the newer run";
}

TEST_F(Follower, BeginsAnewWithAFileThatWasCutReplacedOrWrittenAnew) {
  append(line(0, 1) + line(1, 1));
  const LogFollower follower(path_.string());
  ASSERT_TRUE(soon([&] { return last_step(follower) == 1; }));
  const auto before = follower.histories()[0];
  fs::resize_file(path_, 0);
  ASSERT_TRUE(soon([&] { return follower.restarts() == 1; }));
  append(line(0, 2));
  ASSERT_TRUE(soon([&] { return last_step(follower) == 0; }));
  EXPECT_NE(follower.histories()[0], before);
  EXPECT_EQ(before->steps().last, 1) << "what was shown of the earlier one stays whole";

  fs::rename(path_, path_.string() + ".1");
  append(line(0, 3) + line(1, 3) + line(2, 3));
  ASSERT_TRUE(soon([&] { return last_step(follower) == 2; }));
  EXPECT_EQ(follower.restarts(), 2);
  fs::remove(path_.string() + ".1");

  std::ofstream(path_, std::ios::binary | std::ios::trunc)  // at once: longer than the part that was read
      << R"({"run":"again"})"
      << "\n"
      << line(0, 4) << line(1, 4) << line(2, 4) << line(3, 4) << std::flush;
  ASSERT_TRUE(soon([&] { return last_step(follower) == 3; }));
  EXPECT_EQ(follower.histories()[0]->info().name, "again");
  EXPECT_EQ(follower.restarts(), 3);
}

TEST_F(Follower, TheLastStepGivenLayerByLayerSettles) {
  append(R"({"step":0,"layer":1,"tokens_per_expert":[1,2]})"
         "\n"
         R"({"step":0,"layer":2,"tokens_per_expert":[3,4]})"
         "\n");
  const LogFollower follower(path_.string());
  ASSERT_TRUE(soon([&] { return last_step(follower) == 0; }));
  EXPECT_EQ(follower.histories()[0]->info().moe_layers, (std::vector<int>{1, 2}));
}

TEST_F(Follower, AFolderIsToldAndWaitedFor) {
  const LogFollower follower(fs::temp_directory_path().string());
  EXPECT_TRUE(soon([&] { return follower.problem() == "not a file"; }));
}

}  // namespace
}  // namespace moescope
