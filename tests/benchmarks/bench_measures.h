// Measures for benchmarks on a busy machine.
#pragma once

#include <algorithm>
#include <ctime>
#include <vector>

namespace moescope {

// Returns the CPU time of all threads, in seconds. On a busy machine it varies less than wall time, but it includes the
// time in which threads spin while they wait for others.
inline double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace moescope
