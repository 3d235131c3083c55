#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <span>

#include "core/recording/recording.h"
#include "core/training/engine/live_runs.h"
#include "core/training/engine/run_groups.h"
#include "core/training/engine/run_queue.h"
#include "tests/support/live_steps.h"
#include "tests/support/test_folder.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

class QueueFiles : public testing::Test {
 protected:
  std::string path(const char* name) const { return folder_ / name; }
  TestFolder folder_{"run_queue"};
};

TEST(CandidateGroups, BeginWithRunAAndHoldEveryCandidateOnce) {
  std::vector<RunConfig> runs = {one_layer("a")};
  for (int i = 0; i < 16; ++i) runs.push_back(one_layer(("c" + std::to_string(i)).c_str()));
  const auto groups = candidate_groups(runs, "/r/a.moescope");
  ASSERT_EQ(groups.size(), 6u);
  std::vector<std::string> names;
  for (const auto& group : groups) {
    EXPECT_LE(group.runs.size(), static_cast<std::size_t>(kMaxRuns));
    EXPECT_EQ(group.runs.front().name, "a");
    for (std::size_t i = 1; i < group.runs.size(); ++i) names.push_back(group.runs[i].name);
  }
  EXPECT_EQ(groups[1].recording, "/r/a-2.moescope");
  ASSERT_EQ(names.size(), 16u);
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(names[i], runs[i + 1].name);
}

TEST(CandidateGroups, BaselineOfOtherBitsIsRefused) {
  Baseline baseline;
  TelemetryFrame frame;
  frame.ce_loss = 2;
  frame.grad_norm = 1;
  baseline.check(frame);
  EXPECT_NO_THROW(baseline.check(frame)) << "the next group";
  frame.grad_norm = std::nextafter(1.0f, 2.0f);
  EXPECT_THROW(baseline.check(frame), std::runtime_error);
  frame.step = 2;
  EXPECT_THROW(baseline.check(frame), std::runtime_error) << "step 1 is missing";
}

// Returns run A and candidates with other learning rates.
std::vector<RunConfig> run_with_candidates(int candidates) {
  std::vector<RunConfig> runs(1, one_layer("a"));
  for (int i = 1; i <= candidates; ++i) {
    runs.push_back(runs.front());
    runs.back().name = "lr" + std::to_string(i);
    runs.back().optimizer.lr *= 1 + 0.5 * i;
  }
  return runs;
}

bool ended(const RunQueue& queue) {
  return eventually([&] { return !queue.status().running; });
}

TEST_F(QueueFiles, TrainsEveryGroupAsIfAllHadTrainedTogether) {
  const std::vector<RunConfig> runs = run_with_candidates(5);
  RunQueue queue(candidate_groups(runs, path("sweep.moescope")), 60, path("sweep.moescope"));
  queue.start();
  ASSERT_TRUE(ended(queue)) << queue.status().error;
  EXPECT_TRUE(queue.status().done) << queue.status().error;
  EXPECT_EQ(queue.status().share, 1);
  const auto groups = queue.groups();
  ASSERT_EQ(groups.size(), 2u);

  LiveRuns together({runs[0], runs[4], runs[5]}, "");  // run A and the second group
  run_to(together, 60);
  const auto histories = together.histories();
  ASSERT_EQ(groups[1].histories.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(all_losses(*groups[1].histories[i]), all_losses(*histories[i]));

  const auto found = group_outcomes(groups);
  ASSERT_EQ(found.size(), 6u);
  EXPECT_EQ(found.front().name, "a");
  for (const Outcome& outcome : std::span(found).subspan(1)) {
    EXPECT_FALSE(outcome.waits);
    EXPECT_FALSE(is_missing(outcome.conclusion.gap)) << outcome.name;
    EXPECT_EQ(outcome.figures.steps, 60);
  }
  for (int g = 1; g <= 2; ++g) {
    const RecordingReader recording(path_of_group(path("sweep.moescope"), g));
    ASSERT_EQ(recording.runs().size(), groups[static_cast<std::size_t>(g - 1)].runs.size());
    EXPECT_EQ(all_losses(*recording.load(0)), all_losses(*histories.front())) << "run A of group " << g;
  }
}

TEST(RunQueue, CancelKeepsFinishedGroupsAndStartContinues) {
  RunQueue queue(candidate_groups(run_with_candidates(7)), 40);
  queue.start();
  ASSERT_TRUE(eventually([&] { return queue.status().group == 1 && queue.status().step > 0; }));
  EXPECT_GT(queue.status().share, 4.0 / 10);
  queue.cancel();
  ASSERT_TRUE(ended(queue));
  EXPECT_FALSE(queue.status().done);
  EXPECT_TRUE(queue.status().error.empty()) << queue.status().error;
  EXPECT_EQ(queue.status().group, 1);
  const auto groups = queue.groups();
  ASSERT_EQ(groups[0].histories.size(), 4u);
  EXPECT_TRUE(groups[1].histories.empty()) << "half a group does not compare";
  int waiting = 0;
  for (const Outcome& outcome : group_outcomes(groups)) waiting += outcome.waits ? 1 : 0;
  EXPECT_EQ(waiting, 4);

  queue.start();
  ASSERT_TRUE(ended(queue));
  EXPECT_TRUE(queue.status().done) << queue.status().error;
  EXPECT_EQ(queue.groups()[0].histories[1], groups[0].histories[1]) << "not trained again";
  for (const Outcome& outcome : group_outcomes(queue.groups())) EXPECT_FALSE(outcome.waits);
}

TEST_F(QueueFiles, IsTakenUpByAnotherStart) {
  const std::vector<RunConfig> runs = run_with_candidates(7);
  const std::string recording = path("sweep.moescope");
  {
    RunQueue queue(candidate_groups(runs, recording), 40, recording);
    queue.start();
    ASSERT_TRUE(eventually([&] { return queue.status().group == 1 && queue.status().step > 0; }));
  }
  EXPECT_EQ(queue_file_beside(path("sweep-2.moescope")), path("sweep.queue"));
  EXPECT_EQ(load_queue(path("sweep.queue")).finished, 1);
  const auto trained = fs::last_write_time(path("sweep-1.moescope"));

  const auto queue = RunQueue::take_up(recording);
  EXPECT_FALSE(queue->status().done);
  EXPECT_EQ(queue->status().group, 1);
  EXPECT_DOUBLE_EQ(queue->status().share, 4.0 / 10);
  EXPECT_EQ(queue->groups()[0].histories.size(), 4u);
  EXPECT_TRUE(queue->groups()[1].histories.empty()) << "half a group does not compare";
  queue->start();
  ASSERT_TRUE(ended(*queue));
  EXPECT_TRUE(queue->status().done) << queue->status().error;
  EXPECT_EQ(fs::last_write_time(path("sweep-1.moescope")), trained) << "not trained again";

  RunQueue whole(candidate_groups(runs), 40);
  whole.start();
  ASSERT_TRUE(ended(whole));
  for (std::size_t g = 0; g < 3; ++g)
    for (std::size_t i = 0; i < whole.groups()[g].runs.size(); ++i)
      EXPECT_EQ(all_losses(*queue->groups()[g].histories[i]), all_losses(*whole.groups()[g].histories[i]));
  EXPECT_TRUE(RunQueue::take_up(recording)->status().done);
  EXPECT_EQ(RunQueue::take_up(recording, [](double) { return false; }), nullptr);
}

TEST_F(QueueFiles, OfOtherSettingsOrDamagedIsRefused) {
  const std::string recording = path("sweep.moescope");
  {
    RunQueue queue(candidate_groups(run_with_candidates(4), recording), 5, recording);
    queue.start();
    ASSERT_TRUE(ended(queue));
  }
  const auto refusal = [&] {
    try {
      RunQueue::take_up(recording);
    } catch (const std::runtime_error& problem) {
      return std::string(problem.what());
    }
    return std::string("none");
  };
  const QueueState state = load_queue(path("sweep.queue"));
  EXPECT_EQ(refusal(), "none");
  QueueState other = state;
  other.runs[4].router.top_k = 1;
  save_queue(path("sweep.queue"), other);
  EXPECT_NE(refusal().find("sweep-2.moescope belongs to another comparison: in lr4 router.top_k is 2, not 1"),
            std::string::npos)
      << refusal();
  other = state;
  other.steps = 4;
  save_queue(path("sweep.queue"), other);
  EXPECT_NE(refusal().find("holds 5 steps, more than the 4 to train"), std::string::npos) << refusal();
  other = state;
  other.runs[2].name = other.runs[1].name;
  save_queue(path("sweep.queue"), other);
  EXPECT_NE(refusal().find("two runs are named lr1"), std::string::npos) << refusal();
  fs::remove(path("sweep.queue"));
  EXPECT_NE(refusal().find("sweep.queue"), std::string::npos) << refusal();
  EXPECT_EQ(queue_file_beside(path("sweep-2.moescope")), "");
  const auto text_refusal = [](const std::string& text) {
    try {
      parse_queue(text, "sweep.queue");
    } catch (const std::runtime_error& problem) {
      return std::string(problem.what());
    }
    return std::string("none");
  };
  const std::string begin = "steps = 4\nfinished_groups = 0\n";
  EXPECT_EQ(text_refusal(begin), "sweep.queue:1: run: there are 0; allowed: run A and 1 to 16 candidates");
  EXPECT_EQ(text_refusal(begin + "run = 3"), "sweep.queue:3: run: must be written as [[run]]");
  EXPECT_EQ(text_refusal("finished_groups = 0\nsteps = 0"),
            "sweep.queue:2: steps: must be a whole number from 1 to 1000000000");
  EXPECT_EQ(text_refusal(begin + "[[run]]\nrouter.top_q = 4"),
            "sweep.queue:4: router.top_q: no such key, did you mean router.top_k?");
}

TEST(RunQueue, BaselineOfOtherBitsEndsItInWords) {
  std::vector<RunGroup> groups = candidate_groups(run_with_candidates(4));
  groups[1].runs.front().seed += 1;
  RunQueue queue(groups, 5);
  queue.start();
  ASSERT_TRUE(ended(queue));
  EXPECT_FALSE(queue.status().done);
  EXPECT_EQ(queue.status().finished, 1);
  const std::string error = queue.status().error;
  EXPECT_NE(error.find("group 2: run A differs from that of another group at step 0"), std::string::npos) << error;
  EXPECT_NE(error.find("cannot be compared"), std::string::npos) << error;
}

TEST(RunQueue, CandidateWhoseLossIsLostEndsAlone) {
  std::vector<RunConfig> runs = run_with_candidates(4);
  runs[1].optimizer.lr = 1;
  runs[1].optimizer.weight_decay = 10;
  runs[1].optimizer.schedule = Schedule::constant;
  RunQueue queue(candidate_groups(runs), 100);
  queue.start();
  ASSERT_TRUE(ended(queue));
  EXPECT_TRUE(queue.status().done) << queue.status().error;
  const auto groups = queue.groups();
  EXPECT_LT(groups[0].histories[1]->steps().last, 99);
  EXPECT_EQ(groups[0].histories[2]->steps().last, 99);
}

}  // namespace
}  // namespace moescope
