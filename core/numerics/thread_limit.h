// Limit of the number of threads, however it is asked for: --threads, OMP_NUM_THREADS.
#pragma once

#include <string>

namespace moescope {

inline constexpr int kMostThreads = 1024;

// Returns "OMP_NUM_THREADS is 5000: 1024 threads are used, the most that are allowed" if OpenMP's number is above the
// limit; else an empty text.
std::string thread_limit_note();

}  // namespace moescope
