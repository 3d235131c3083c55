// A run of a million steps without training, and measurements of the memory that it needs.
//
// Its frames repeat 97 frames of a made-up run (synthetic_run.h), because copying a frame takes only microseconds.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/recording/frame_sink.h"
#include "tests/support/synthetic_run.h"

namespace moescope {

class LongRun {
 public:
  static constexpr std::int64_t kFrames = 97;  // not a multiple of any interval that readers use

  LongRun() {
    SyntheticRun run(shape());
    info_ = run.history()->info();
    for (std::int64_t i = 0; i < kFrames; ++i) frames_.push_back(run.next());
  }
  const RunInfo& info() const { return info_; }
  TelemetryFrame frame(std::int64_t step) const {
    TelemetryFrame frame = *frames_[static_cast<std::size_t>(step % kFrames)];
    frame.step = step;
    frame.wall_s = 0.01 * static_cast<double>(step + 1);
    frame.tokens = shape().tokens * (step + 1);
    return frame;
  }

 private:
  static SyntheticShape shape() {
    return {.layers = 9, .experts = 16, .top_k = 2, .ranks = 4, .quant_every = 40, .specialise_every = 90};
  }
  RunInfo info_;
  std::vector<std::shared_ptr<const TelemetryFrame>> frames_;
};

// Memory of the program in bytes: resident memory, and memory that is allocated (0 if the allocator of this build does
// not report it).
inline std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096;
}
inline std::size_t allocated_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// A recording and a history like those of `moescope-cli train --out FILE`, with a checkpoint every 1,000 steps.
class LongTraining {
 public:
  explicit LongTraining(const std::string& recording, std::size_t array_budget = std::size_t{512} << 20)
      : sink_(recording, array_budget), history_(sink_.add_run(run_.info())) {}

  void go_on_to(std::int64_t step) {
    for (; step_ < step; ++step_) {
      sink_.flush();
      sink_.publish(run_.frame(step_));
      if (step_ % 1000 == 999) sink_.publish(Marker{0, step_, "event", "checkpoint kept/" + std::to_string(step_ + 1)});
    }
    sink_.flush();
  }
  const History& history() const { return *history_; }
  std::string error() const { return sink_.error(); }

 private:
  LongRun run_;
  std::int64_t step_ = 0;
  FrameSink sink_;
  std::shared_ptr<History> history_;
};

// A history keeps up to 256 MiB of figures and up to 512 MiB of arrays (history.h). A LongRun has reached both
// limits after 270,000 steps. Memory must not grow after kPlateau steps.
inline constexpr std::int64_t kPlateau = 600000;
// Limit of the largest resident memory after kPlateau steps, divided by the largest before. Single values are not
// compared, because memory falls each time a history at its limit drops frames, and the allocator keeps free blocks.
inline constexpr double kMaxGrowth = 1.05;

inline double mib(std::size_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

// Takes `steps` steps and prints the memory during them. Returns the exit status: 1 if the largest resident memory
// after kPlateau steps is more than kMaxGrowth times the largest before.
template <class Long>
int measure(Long& run, std::int64_t steps) {
  const auto start = std::chrono::steady_clock::now();
  std::printf("%10s %13s %14s %13s %13s %8s\n", "steps", "resident MiB", "allocated MiB", "arrays MiB", "figures MiB",
              "s");
  std::size_t before = 0, after = 0;
  const auto look = [&](std::int64_t step) {
    run.go_on_to(step);
    const std::size_t resident = resident_bytes();
    std::printf("%10lld %13.1f %14.1f %13.1f %13.1f %8.0f\n", static_cast<long long>(step), mib(resident),
                mib(allocated_bytes()), mib(run.history().array_bytes()), mib(run.history().scalar_bytes()),
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    std::fflush(stdout);
    std::size_t& largest = step <= kPlateau ? before : after;
    largest = std::max(largest, resident);
  };
  for (const std::int64_t step : {1000, 10000, 50000})
    if (step < steps) look(step);
  for (std::int64_t step = 100000; step < steps; step += 100000) look(step);
  look(steps);
  if (steps <= kPlateau) return 0;
  const double growth = static_cast<double>(after) / static_cast<double>(before);
  std::printf("resident: at most %.1f MiB in the first %lld steps, %.1f MiB after them: %.3f of it, allowed is %.2f\n",
              mib(before), static_cast<long long>(kPlateau), mib(after), growth, kMaxGrowth);
  return growth > kMaxGrowth ? 1 : 0;
}

}  // namespace moescope
