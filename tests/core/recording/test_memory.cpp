// A run of any length stays within the budgets of its history, and nothing else grows with the number of steps.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/findings/findings.h"
#include "tests/support/long_run.h"

namespace moescope {
namespace {

// Returns the most bytes that are allocated in steps (from, to], without those of the history, which rise and fall.
double most_beside_history(LongTraining& run, std::int64_t from, std::int64_t to) {
  std::size_t largest = 0;
  for (std::int64_t step = from + 100; step <= to; step += 100) {
    run.go_on_to(step);
    largest = std::max(largest, allocated_bytes() - run.history().scalar_bytes() - run.history().array_bytes());
  }
  return static_cast<double>(largest);
}

// Arrays reach their budget after 1,000 steps; caches and vectors that double reach their bounds after 6,000.
TEST(Memory, RecordingSinkAndHistoryReachAPlateau) {
  if (allocated_bytes() == 0) GTEST_SKIP() << "this build's allocator does not tell";
  const auto path =
      std::filesystem::temp_directory_path() / ("moescope_memory_" + std::to_string(getpid()) + ".moescope");
  {
    LongTraining run(path.string(), std::size_t{8} << 20);
    run.go_on_to(6000);
    const double early = most_beside_history(run, 6000, 8000), late = most_beside_history(run, 8000, 12000);
    EXPECT_EQ(run.error(), "");
    EXPECT_EQ(run.history().steps().last, 11999);
    EXPECT_GT(run.history().kept_every(), 1);
    EXPECT_LT((late - early) / 4000, 16) << "bytes a step";
    std::printf("at most %.0f kB, then %.0f kB\n", early / 1e3, late / 1e3);
  }
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path.string() + suffix);
}

// Both budgets are full after 20,000 steps.
TEST(Memory, AHistoryReachesAPlateau) {
  if (allocated_bytes() == 0) GTEST_SKIP() << "this build's allocator does not tell";
  const LongRun run;
  const std::size_t empty = allocated_bytes();
  constexpr std::size_t kArrays = std::size_t{8} << 20, kFigures = std::size_t{24} << 20;
  History history(run.info(), kArrays, kFigures);
  std::size_t early = 0, late = 0;
  for (std::int64_t step = 0; step < 80000; ++step) {
    history.append(std::make_shared<const TelemetryFrame>(run.frame(step)));
    if (step % 100 != 0) continue;
    std::size_t& largest = step < 40000 ? early : late;
    largest = std::max(largest, allocated_bytes() - empty);
  }
  EXPECT_LE(history.array_bytes(), kArrays);
  EXPECT_LT(static_cast<double>(late), 1.05 * static_cast<double>(early));  // thinning halves each from time to time
  EXPECT_LT(late, 5 * (kArrays + kFigures) / 4);
  std::printf("at most %.0f kB, then %.0f kB\n", static_cast<double>(early) / 1e3, static_cast<double>(late) / 1e3);
}

// Experts that lose all tokens and get them back, spikes of the loss and jumps of the load, without end.
TEST(Memory, FindingsOfARestlessRunDoNotAddUp) {
  if (allocated_bytes() == 0) GTEST_SKIP() << "this build's allocator does not tell";
  RunInfo info;
  info.name = "restless";
  info.n_layers = 3;
  info.moe_layers = {1, 2};
  info.n_experts = 8;
  info.top_k = 2;
  info.tokens_per_step = 256;
  auto history = std::make_shared<History>(info, std::size_t{1} << 20, std::size_t{2} << 20);
  FindingsScan scan(history);
  std::int64_t step = 0;
  const auto go_on_to = [&](std::int64_t end) {
    for (; step < end; ++step) {
      auto frame = std::make_shared<TelemetryFrame>();
      frame->step = step;
      frame->ce_loss = step % 150 == 149 ? 40.0f : 2.0f + 0.01f * static_cast<float>(step % 7);
      for (const int layer : info.moe_layers) {
        RouterFrame& router = frame->routers.emplace_back();
        router.layer = layer;
        router.tokens_per_expert.assign(8, 64);
        const bool silent = step / 250 % 2 == 1, jumped = step / 900 % 2 == 1;
        for (std::size_t e = 0; silent && e < 4; ++e)
          router.tokens_per_expert[(e + static_cast<std::size_t>(step / 500)) % 7] = 0;
        if (jumped) router.tokens_per_expert[7] = 400;
        router.max_vio = max_vio(router.tokens_per_expert);
        router.entropy_norm = entropy_norm(router.tokens_per_expert);
      }
      history->append(frame);
      if (step % 200 == 199) scan.advance(step);
    }
  };
  go_on_to(40000);
  EXPECT_FALSE(scan.findings().empty());
  const auto other_bytes = [&] { return allocated_bytes() - history->array_bytes() - history->scalar_bytes(); };
  const std::size_t before = other_bytes(), found = scan.findings().size();
  go_on_to(120000);
  EXPECT_LT(static_cast<double>(other_bytes()) - static_cast<double>(before), 80000 * 4) << "four bytes a step";
  EXPECT_LE(scan.findings().size(), found + 4);
}

}  // namespace
}  // namespace moescope
