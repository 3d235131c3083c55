// Waits for a lab, which trains on a thread of its own.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/training/engine/live_runs.h"

namespace moescope {

// Returns true if `condition` becomes true within 30 seconds.
template <class Condition>
bool eventually(const Condition& condition) {
  for (int i = 0; i < 3000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

inline void run_to(LiveRuns& live, std::int64_t step) {
  live.run_until(step);
  ASSERT_TRUE(eventually([&] {
    const LiveStatus now = live.status();
    return now.step == step && !now.running && now.catching_up.empty();
  })) << live.status().error;
  live.flush();
}

}  // namespace moescope
