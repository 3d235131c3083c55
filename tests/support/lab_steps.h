// Waiting for a lab, which trains on a thread of its own.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/training/lab/lab.h"

namespace moescope {

/// Whether `condition` came true within 30 seconds.
template <class Condition>
bool eventually(const Condition& condition) {
  for (int i = 0; i < 3000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

inline void run_to(Lab& lab, std::int64_t step) {
  lab.run_until(step);
  ASSERT_TRUE(eventually([&] {
    const LabStatus now = lab.status();
    return now.step == step && !now.running && now.catching_up.empty();
  })) << lab.status().error;
  lab.flush();
}

}  // namespace moescope
