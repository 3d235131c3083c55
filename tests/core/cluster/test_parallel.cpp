#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "core/numerics/gemm.h"
#include "core/numerics/rng.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

class Parallel : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_num_threads(GetParam()); }
  void TearDown() override { set_num_threads(0); }
};

// Calls `body` until the threads of the process were counted 20 times, and returns the largest number, without the
// counting thread.
std::ptrdiff_t most_threads_during(const std::function<void()>& body) {
  std::atomic<int> counted{0};
  std::atomic<bool> done{false};
  std::ptrdiff_t most_threads = 0;
  std::thread counts([&] {
    using Entries = std::filesystem::directory_iterator;
    for (; !done; ++counted)
      most_threads = std::max(most_threads, std::distance(Entries("/proc/self/task"), Entries()));
  });
  do body();
  while (counted < 20);
  done = true;
  counts.join();
  return most_threads - 1;
}

// OpenBLAS with its own threads would be slow beside ours, and its sums would depend on their number.
TEST(Gemm, StaysOnTheCallingThread) {
  const auto multiply = [] {
    const int n = 512;
    const std::vector<float> a(n * n, 1.0f);
    std::vector<float> c(n * n);
    gemm(Trans::no, Trans::yes, 1.0f, {a.data(), n, n}, {a.data(), n, n}, 0.0f, Matrix<float>(c.data(), n, n));
    EXPECT_EQ(c[0], static_cast<float>(n));
  };
  const auto on_a_fresh_thread = [](const std::function<void()>& body) {
    return most_threads_during([&] { std::thread(body).join(); });
  };
  const std::ptrdiff_t baseline = on_a_fresh_thread([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
  EXPECT_LE(on_a_fresh_thread(multiply), baseline);
  set_num_threads(1);
  EXPECT_LE(on_a_fresh_thread([&] {  // as training does: a team for each step
              for (int step = 0; step < 20; ++step) with_team(multiply);
            }),
            baseline);
  set_num_threads(0);
}

TEST_P(Parallel, EveryTaskRunsOnce) {
  for (int tasks = 0; tasks < 300; ++tasks) {
    std::vector<int> runs(static_cast<std::size_t>(tasks), 0);
    parallel_for(tasks, [&](int task) { ++runs[static_cast<std::size_t>(task)]; });
    for (const int n : runs) ASSERT_EQ(n, 1) << tasks;
  }
}

TEST_P(Parallel, ResultsAreVisibleAfterTheLoop) {
  std::vector<int> values(1000, 0);
  for (int round = 1; round <= 2000; ++round) {
    parallel_for(7, [&](int task) { values[static_cast<std::size_t>(task)] += task; });
    for (int task = 0; task < 7; ++task) ASSERT_EQ(values[static_cast<std::size_t>(task)], round * task);
  }
}

TEST_P(Parallel, LoopsMayNest) {
  std::atomic<int> runs{0};
  parallel_for(5, [&](int) { parallel_for(6, [&](int) { ++runs; }); });
  EXPECT_EQ(runs, 30);
}

TEST_P(Parallel, SeveralThreadsMayStartLoops) {
  std::atomic<int> runs{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) parallel_for(4, [&](int) { ++runs; });
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(runs, 3 * 200 * 4);
}

TEST_P(Parallel, SlicesCoverTheRange) {
  std::vector<int> runs(1001, 0);
  parallel_slices(runs.size(), 100, [&](std::size_t first, std::size_t last) {
    EXPECT_LE(last - first, 100u);
    for (std::size_t i = first; i < last; ++i) ++runs[i];
  });
  EXPECT_EQ(std::count(runs.begin(), runs.end(), 1), 1001);
}

INSTANTIATE_TEST_SUITE_P(Threads, Parallel, testing::Values(1, 2, 5));

TEST_P(Parallel, JobsSideBySideRunTheirOwnLoops) {
  for (const int jobs : {1, 2, 3, 2}) {
    std::vector<std::vector<int>> sums(static_cast<std::size_t>(jobs), std::vector<int>(50));
    for (int round = 0; round < 100; ++round)
      side_by_side(jobs, [&](int job) {
        std::vector<int>& job_sums = sums[static_cast<std::size_t>(job)];
        parallel_for(50, [&](int task) { job_sums[static_cast<std::size_t>(task)] += job + task; });
      });
    for (int job = 0; job < jobs; ++job)
      for (int task = 0; task < 50; ++task)
        ASSERT_EQ(sums[static_cast<std::size_t>(job)][static_cast<std::size_t>(task)], 100 * (job + task));
  }
}

TEST(ParallelThreads, JobsSideBySideGoOnAtTheSameTime) {
  set_num_threads(4);
  EXPECT_EQ(threads_per_job(1), 0);
  EXPECT_EQ(threads_per_job(2), 2);
  EXPECT_EQ(threads_per_job(3), 0);
  std::atomic<int> begun{0};
  side_by_side(2, [&](int) {
    ++begun;
    while (begun < 2) std::this_thread::yield();  // never ends if the jobs run one after the other
  });
  set_num_threads(0);
  EXPECT_EQ(begun, 2);
}

TEST(ParallelThreads, TheNumberMayChangeBetweenLoops) {
  std::atomic<int> runs{0};
  for (const int threads : {1, 4, 2, 0, 3}) {
    set_num_threads(threads);
    EXPECT_GE(num_threads(), 1);
    for (int round = 0; round < 20; ++round) parallel_for(9, [&](int) { ++runs; });
  }
  set_num_threads(0);
  EXPECT_EQ(runs, 5 * 20 * 9);
}

TEST(Gemm, TransposesStridesAndBeta) {
  // A = [1 2 3; 4 5 6] in rows of 4, B = [1 0; 0 1; 1 1], C starts as ones.
  const std::vector<double> a = {1, 2, 3, -9, 4, 5, 6, -9}, b = {1, 0, 0, 1, 1, 1};
  std::vector<double> c(4, 1);
  gemm(Trans::no, Trans::no, 2.0, {a.data(), 2, 3, 4}, {b.data(), 3, 2}, 10.0, Matrix<double>(c.data(), 2, 2));
  EXPECT_EQ(c, (std::vector<double>{18, 20, 30, 32}));
  std::vector<double> d(9);
  gemm(Trans::yes, Trans::yes, 1.0, {a.data(), 2, 3, 4}, {b.data(), 3, 2}, 0.0, Matrix<double>(d.data(), 3, 3));
  EXPECT_EQ(d, (std::vector<double>{1, 4, 5, 2, 5, 7, 3, 6, 9}));
}

TEST(RandomStream, IsAFunctionOfSeedPurposeAndCounter) {
  const RandomStream a(1, "x"), equal(1, "x"), other_seed(2, "x"), other_purpose(1, "y");
  EXPECT_EQ(a.bits(5), equal.bits(5));
  EXPECT_NE(a.bits(5), a.bits(6));
  EXPECT_NE(a.bits(5), other_seed.bits(5));
  EXPECT_NE(a.bits(5), other_purpose.bits(5));
}

TEST(RandomStream, NormalHasItsMoments) {
  const RandomStream random(3, "moments");
  constexpr int kDraws = 200000;
  double sum = 0, squares = 0, fourth = 0, largest = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal(static_cast<std::uint64_t>(i));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    largest = std::max(largest, std::fabs(random.truncated_normal(static_cast<std::uint64_t>(i), 1.5)));
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.01);  // four standard errors
  EXPECT_NEAR(squares / kDraws, 1, 0.015);
  EXPECT_NEAR(fourth / kDraws, 3, 0.1);
  EXPECT_LE(largest, 1.5);
  EXPECT_GT(largest, 1.49);
}

}  // namespace
}  // namespace moescope
