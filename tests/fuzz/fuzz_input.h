// Shared by the fuzzers: the input as a file in memory, and a check that aborts.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

namespace moescope {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

// Limits of a reader for an input, which is small: processor time, which other processes do not change, and memory of
// the whole program since its start.
class WithinLimits {
 public:
  ~WithinLimits() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    require(usage.ru_maxrss < kMaxKilobytes, "less than 1.5 GB of memory");
    require(std::clock() - begin_ < kLongest, "less than 10 seconds of processor time");
  }

 private:
  static constexpr long kMaxKilobytes = 1'500'000;
  static constexpr std::clock_t kLongest = 10 * CLOCKS_PER_SEC;
  std::clock_t begin_ = std::clock();
};

// Returns the path of a file in memory with these bytes, for readers that open a path.
inline const std::string& as_file(const std::uint8_t* data, std::size_t size) {
  static const int fd = ::memfd_create("fuzz_input", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  require(::ftruncate(fd, 0) == 0, "truncate");
  require(::pwrite(fd, data, size, 0) == static_cast<ssize_t>(size), "write");
  return path;
}

}  // namespace moescope
