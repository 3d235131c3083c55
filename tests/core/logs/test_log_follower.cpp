#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "core/logs/follower.h"
#include "tests/support/soon.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

std::string line(int step, double loss) {
  return R"({"step":)" + std::to_string(step) + R"(,"loss":)" + std::to_string(loss) +
         R"(,"tokens_per_expert":[[1,2,3,4],[4,3,2,1]]})" + "\n";
}

class FollowedLog : public testing::Test {
 protected:
  FollowedLog() : path_(fs::temp_directory_path() / ("moescope_follow_" + std::to_string(::getpid()) + ".jsonl")) {
    fs::remove(path_);
  }
  ~FollowedLog() override { fs::remove(path_); }
  void append(const std::string& text) { std::ofstream(path_, std::ios::binary | std::ios::app) << text << std::flush; }
  static std::int64_t last_step(const Follower& follower) {
    const auto histories = follower.histories();
    return histories.empty() ? -1 : histories[0]->steps().last;
  }
  fs::path path_;
};

TEST_F(FollowedLog, WaitsForTheFileAndForTheEndOfALine) {
  const Follower follower(path_.string());
  EXPECT_TRUE(soon([&] { return follower.problem() == "No such file or directory"; }));
  EXPECT_TRUE(follower.histories().empty());
  const std::string first = line(0, 5);
  append(first.substr(0, 20));
  EXPECT_TRUE(soon([&] { return follower.problem().empty(); }));
  std::this_thread::sleep_for(2 * kSettleAfter);
  EXPECT_TRUE(follower.histories().empty()) << "half a line is no line";
  EXPECT_EQ(follower.amount(), "0 lines");
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
  EXPECT_TRUE(follower.restart_remarks().empty());
}

// Two runs of one script begin with the same settings.
TEST_F(FollowedLog, BeginsAnewWithAFileThatBeginsAsTheOneBeforeIt) {
  const std::string settings = R"({"run":"one","note":")" + std::string(6000, 'x') + "\"}\n";
  append(settings + line(0, 1) + line(1, 1) + line(2, 1));
  const Follower follower(path_.string());
  ASSERT_TRUE(soon([&] { return last_step(follower) == 2; }));
  const auto before = follower.histories()[0];
  std::ofstream(path_, std::ios::binary | std::ios::trunc)
      << settings << line(0, 4) << line(1, 4) << line(2, 4) << line(3, 4) << std::flush;
  ASSERT_TRUE(soon([&] { return last_step(follower) == 3; }));
  EXPECT_EQ(follower.restart_remarks(), (std::vector{truncated_text(2), dropped_text(2)}));
  EXPECT_EQ(before->steps().last, 2);
  EXPECT_FLOAT_EQ(follower.histories()[0]->value_at(Metric::ce_loss, kWholeRun, 1), 4.0f) << "of the newer run";
}

TEST_F(FollowedLog, BeginsAnewWithAFileThatWasCutReplacedOrWrittenAnew) {
  append(line(0, 1) + line(1, 1));
  const Follower follower(path_.string());
  ASSERT_TRUE(soon([&] { return last_step(follower) == 1; }));
  const auto before = follower.histories()[0];
  fs::resize_file(path_, 0);
  ASSERT_TRUE(soon([&] { return follower.restart_remarks().size() == 1; }));
  EXPECT_EQ(last_step(follower), 1) << "until the new file has a step";
  append(line(0, 2));
  ASSERT_TRUE(soon([&] { return last_step(follower) == 0; }));
  EXPECT_NE(follower.histories()[0], before);
  EXPECT_EQ(before->steps().last, 1) << "what was shown of the earlier one stays whole";

  fs::rename(path_, path_.string() + ".1");
  append(line(1, 3) + line(2, 3));
  ASSERT_TRUE(soon([&] { return last_step(follower) == 2; }));
  EXPECT_EQ(follower.restart_remarks().back(), kept_text(0));
  fs::remove(path_.string() + ".1");

  std::ofstream(path_, std::ios::binary | std::ios::trunc)  // at once: longer than the part that was read
      << R"({"run":"again"})"
      << "\n"
      << line(0, 4) << line(1, 4) << line(2, 4) << line(3, 4) << std::flush;
  ASSERT_TRUE(soon([&] { return last_step(follower) == 3; }));
  EXPECT_EQ(follower.histories()[0]->info().name, "again");
  EXPECT_EQ(follower.restart_remarks().size(), 6u);
}

TEST_F(FollowedLog, KeepsTheStepsIfThoseOfTheNewFileGoOn) {
  append(line(0, 5) + line(1, 4));
  const Follower follower(path_.string());
  ASSERT_TRUE(soon([&] { return last_step(follower) == 1; }));
  const auto history = follower.histories()[0];
  fs::resize_file(path_, 0);
  ASSERT_TRUE(soon([&] { return follower.restart_remarks().size() == 1; }));
  append(line(2, 3));
  ASSERT_TRUE(soon([&] { return last_step(follower) == 2; }));
  EXPECT_EQ(follower.histories()[0], history);
  EXPECT_EQ(history->count(), 3);
  EXPECT_FLOAT_EQ(history->value_at(Metric::ce_loss, kWholeRun, 0), 5.0f);
  EXPECT_EQ(follower.restart_remarks(), (std::vector{truncated_text(1), kept_text(1)}));

  const std::string last = line(4, 1);  // its newline is written to the file that was renamed
  append(line(3, 2) + last.substr(0, last.size() - 1));
  fs::rename(path_, path_.string() + ".1");
  append(line(5, 0.5));
  ASSERT_TRUE(soon([&] { return last_step(follower) == 5; }));
  EXPECT_EQ(history->count(), 6) << "with what was written before the file was renamed";
  EXPECT_EQ(follower.bad().count(), 0) << follower.bad().text();
  fs::remove(path_.string() + ".1");
}

// A program that goes on at its position in a truncated file leaves zeros before it.
TEST_F(FollowedLog, SkipsTheZerosOfATruncatedFile) {
  std::ofstream log(path_, std::ios::binary);
  log << line(0, 5) << line(1, 4) << std::flush;
  const Follower follower(path_.string());
  ASSERT_TRUE(soon([&] { return last_step(follower) == 1; }));
  fs::resize_file(path_, 0);
  log << line(2, 3) << std::flush;
  ASSERT_TRUE(soon([&] { return last_step(follower) == 2; })) << follower.problem();
  EXPECT_EQ(follower.histories()[0]->count(), 3);
  log << line(3, 2) << std::flush;
  ASSERT_TRUE(soon([&] { return last_step(follower) == 3; }));
  EXPECT_EQ(follower.bad().count(), 0) << follower.bad().text();
}

TEST_F(FollowedLog, ReadsALastLineWithoutNewlineWhenItsWriterHasClosedTheFile) {
  const std::string last = line(1, 4), without_newline = last.substr(0, last.size() - 1);
  std::ofstream log(path_, std::ios::binary);
  log << line(0, 5) << without_newline << std::flush;
  const Follower follower(path_.string());
  ASSERT_TRUE(soon([&] { return last_step(follower) == 0; }));
  std::this_thread::sleep_for(2 * kSettleAfter);
  EXPECT_EQ(last_step(follower), 0) << "its writer may go on";
  log.close();
  ASSERT_TRUE(soon([&] { return last_step(follower) == 1; }));
  append("\n" + line(2, 3));
  ASSERT_TRUE(soon([&] { return last_step(follower) == 2; })) << "another writer goes on";
  EXPECT_EQ(follower.amount(), "3 lines");
  EXPECT_EQ(follower.remarks(), std::vector<std::string>());
}

TEST_F(FollowedLog, AStepOfALineThatWentOnHasItsLastValues) {
  append("step: 9 loss: 3.5\nstep: 10 loss: 2.5");
  const Follower follower(path_.string());
  ASSERT_TRUE(soon([&] { return last_step(follower) == 10; }));
  append("13 grad_norm: 4.5\nstep: 11 loss: 2.0\n");
  ASSERT_TRUE(soon([&] { return last_step(follower) == 11; }));
  const auto history = follower.histories()[0];
  EXPECT_FLOAT_EQ(history->value_at(Metric::ce_loss, kWholeRun, 10), 2.513f);
  EXPECT_FLOAT_EQ(history->value_at(Metric::grad_norm, kWholeRun, 10), 4.5f);
  EXPECT_EQ(history->count(), 3);
}

TEST_F(FollowedLog, ReadsTheLastLineAtTheEnd) {
  std::ofstream log(path_, std::ios::binary);
  log << "step: 9 loss: 3.5\nstep: 10 loss: 2.5" << std::flush;
  Follower follower(path_.string());
  ASSERT_TRUE(soon([&] { return last_step(follower) == 9; }));
  follower.finish();
  EXPECT_EQ(last_step(follower), 10);
}

TEST_F(FollowedLog, TheLastStepGivenLayerByLayerSettles) {
  append(R"({"step":0,"layer":1,"tokens_per_expert":[1,2]})"
         "\n"
         R"({"step":0,"layer":2,"tokens_per_expert":[3,4]})"
         "\n");
  const Follower follower(path_.string());
  ASSERT_TRUE(soon([&] { return last_step(follower) == 0; }));
  EXPECT_EQ(follower.histories()[0]->info().moe_layers, (std::vector<int>{1, 2}));
}

TEST_F(FollowedLog, AFolderIsToldAndWaitedFor) {
  fs::create_directory(path_);
  const Follower follower(path_.string());
  EXPECT_TRUE(soon([&] { return follower.problem() == "not a file"; }));
}

TEST_F(FollowedLog, LoadsOfRanksThatFollowEachOtherAreAdded) {
  for (const char* rank : {"0", "1"})
    for (const char* step : {"1", "2"})
      append(R"({"rank":)" + std::string(rank) + R"(,"step":)" + step +
             R"(,"loss":2,"tokens_per_expert":[[3,5]]})"
             "\n");
  append(R"({"rank":2,"step":1,"loss":2,"tokens_per_expert":[[1,7]]})"
         "\n"
         R"({"rank":2,"step":2,)");
  const Follower follower(path_.string());
  ASSERT_TRUE(soon([&] { return last_step(follower) == 2; }));
  EXPECT_EQ(follower.histories()[0]->frame_at(1)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{7, 17}));
  append(R"("loss":2,"tokens_per_expert":[[1,7]]})"
         "\n");
  EXPECT_TRUE(soon([&] {
    return follower.histories()[0]->frame_at(2)->routers.at(0).tokens_per_expert == std::vector<std::uint32_t>{7, 17};
  }));
}

TEST_F(FollowedLog, RanksMayBeginToFollowEachOther) {
  const auto lines_of = [](const std::string& rank, const std::string& loads) {
    std::string lines;
    for (int step = 1; step <= 20; ++step)
      lines += R"({"rank":)" + rank + R"(,"step":)" + std::to_string(step) + R"(,"loss":2,"tokens_per_expert":[)" +
               loads + "]}\n";
    return lines;
  };
  append(lines_of("0", "[3,5]"));
  const Follower follower(path_.string());
  ASSERT_TRUE(soon([&] { return last_step(follower) == 20; }));
  append(lines_of("1", "[1,7]"));
  EXPECT_TRUE(soon([&] {
    const auto histories = follower.histories();
    return !histories.empty() &&
           histories[0]->frame_at(2)->routers.at(0).tokens_per_expert == std::vector<std::uint32_t>{4, 12};
  }));
}

}  // namespace
}  // namespace moescope
