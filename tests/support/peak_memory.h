// Measures the peak memory of a function, for tests of readers of hostile files.
#pragma once

#include <cstddef>
#include <fstream>
#include <string>

namespace moescope {

// Returns the value of a line of /proc/self/status, "VmRSS:" or "VmHWM:", in bytes.
inline std::size_t memory_figure(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::size_t kilobytes = 0;
    if (word == name && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

// Returns the peak of the resident memory while `work` runs, minus the resident memory before, in bytes.
template <class Work>
std::size_t peak_growth(Work work) {
  std::ofstream("/proc/self/clear_refs") << 5;  // resets the peak
  const std::size_t before = memory_figure("VmRSS:");
  work();
  const std::size_t peak = memory_figure("VmHWM:");
  return peak > before ? peak - before : 0;
}

}  // namespace moescope
