// Waits for a result of another thread.
#pragma once

#include <chrono>
#include <thread>

namespace moescope {

// Returns true if `holds` becomes true within ten seconds.
inline bool soon(const auto& holds) {
  for (int i = 0; i < 1000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
    if (holds()) return true;
  return false;
}

}  // namespace moescope
