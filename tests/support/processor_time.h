// Processor time, for limits of tests and for benchmarks: on a busy machine it varies less than wall time. It includes
// the time in which threads spin while they wait for others.
#pragma once

#include <sys/resource.h>

namespace moescope {

// Seconds that this process has used, all threads together, or with RUSAGE_CHILDREN the processes that it waited for.
inline double processor_seconds(int processes = RUSAGE_SELF) {
  rusage usage{};
  ::getrusage(processes, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace moescope
