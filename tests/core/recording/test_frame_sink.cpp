#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

#include "core/frame/frame.h"
#include "core/recording/frame_sink.h"
#include "tests/support/recording_file.h"
#include "tests/support/sample_frames.h"

namespace moescope {
namespace {

RunInfo info_of_run(int run) {
  RunInfo info = sample_info({});
  info.run = run;
  return info;
}

TEST(FrameSink, BringsFramesOfSeveralRunsInOrder) {
  std::mt19937 rng(1);
  FrameSink sink("");
  const auto a = sink.add_run(info_of_run(0));
  const auto b = sink.add_run(info_of_run(1));
  std::vector<TelemetryFrame> frames;
  for (int step = 0; step < 200; ++step) {
    for (int run = 0; run < 2; ++run) {
      frames.push_back(sample_frame(step, {}, rng));
      frames.back().run = run;
      sink.publish(frames.back());
    }
    if (step == 100) sink.publish(change_marker(1, 101, "router.top_k", "2", "3"));
  }
  sink.flush();
  EXPECT_EQ(a->steps(), (StepRange{0, 199}));
  EXPECT_EQ(b->steps(), (StepRange{0, 199}));
  expect_equal(*a->frame_at(77), frames[2 * 77]);
  expect_equal(*b->frame_at(77), frames[2 * 77 + 1]);
  EXPECT_TRUE(a->markers().empty());
  ASSERT_EQ(b->markers().size(), 1u);
  EXPECT_EQ(sink.error(), "");
}

TEST(FrameSink, FlushMeansWrittenAsWell) {
  std::mt19937 rng(2);
  const std::string path = temporary_file("sink_flush.moescope");
  FrameSink sink(path);
  sink.add_run(info_of_run(0));
  for (int step = 0; step < 60; ++step) {
    sink.publish(sample_frame(step, {}, rng));
    if (step % 20 == 19) {
      sink.flush();
      EXPECT_EQ(RecordingReader(path).load(0)->steps().last, step);
    }
  }
}

TEST(FrameSink, ClosingDrains) {
  std::mt19937 rng(3);
  const std::string path = temporary_file("sink_close.moescope");
  std::shared_ptr<History> history;
  {
    FrameSink sink(path);
    history = sink.add_run(info_of_run(0));
    for (int step = 0; step < 500; ++step) sink.publish(sample_frame(step, {}, rng));
  }
  EXPECT_EQ(history->steps().last, 499);
  EXPECT_EQ(RecordingReader(path).load(0)->steps().last, 499);
  EXPECT_FALSE(std::filesystem::exists(path + "-wal")) << "a closed recording is one file";
}

TEST(FrameSink, FlushFromManyThreads) {
  FrameSink sink("");
  const auto history = sink.add_run(info_of_run(0));
  std::thread trainer([&] {
    for (int step = 0; step < 3000; ++step) {
      TelemetryFrame frame;
      frame.step = step;
      sink.publish(frame);
    }
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 1; n <= 50; ++n) {
        const std::string kind = std::to_string(i);
        sink.publish(Marker{0, 5000, kind, ""});
        sink.flush();
        const auto markers = history->markers();
        ASSERT_EQ(std::count_if(markers.begin(), markers.end(), [&](const Marker& m) { return m.kind == kind; }), n);
      }
    });
  }
  trainer.join();
  for (std::thread& other : threads) other.join();
  sink.flush();
  EXPECT_EQ(history->steps(), (StepRange{0, 2999}));
}

// On a full disk, here a limit on the file's size, the recording ends with a reason, and the history continues.
TEST(FrameSink, FailingDiskDoesNotStopTraining) {
  std::mt19937 rng(4);
  const std::string path = temporary_file("sink_full.moescope");
  FrameSink sink(path);
  const auto history = sink.add_run(info_of_run(0));
  sink.publish(sample_frame(0, {}, rng));
  sink.flush();
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{300'000, old.rlim_max};
  auto* const old_handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  for (int step = 1; step < 300; ++step) sink.publish(sample_frame(step, {}, rng));
  sink.flush();
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_NE(sink.error().find(path), std::string::npos) << sink.error();
  EXPECT_EQ(history->steps(), (StepRange{0, 299}));
  EXPECT_GE(RecordingReader(path).load(0)->steps().last, 0) << "what was written before is whole";
}

TEST(FrameSink, RecordingThatCannotBeMadeIsSaidAtOnce) {
  EXPECT_THROW(FrameSink("/nonexistent/folder/run.moescope"), std::runtime_error);
}

}  // namespace
}  // namespace moescope
