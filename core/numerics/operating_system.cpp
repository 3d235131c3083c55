#include "core/numerics/operating_system.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <thread>

#if MOESCOPE_ON_LINUX
#include <sched.h>
#elif defined(__APPLE__)
#include <mach-o/dyld.h>
#endif

namespace moescope {

std::string program_path() {
#if defined(__APPLE__)
  std::uint32_t size = 0;
  _NSGetExecutablePath(nullptr, &size);
  std::string path(size, '\0');
  _NSGetExecutablePath(path.data(), &size);
  return path.c_str();
#else
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "/proc/self/exe" : path.string();
#endif
}

std::size_t usable_processors() {
#if MOESCOPE_ON_LINUX
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
#endif
  return std::max(1u, std::thread::hardware_concurrency());  // on Linux: the machine has more than the set holds
}

bool make_pipe(int (&ends)[2]) {
#if MOESCOPE_ON_LINUX
  return ::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0;
#else
  if (::pipe(ends) != 0) return false;
  for (const int end : ends) {
    ::fcntl(end, F_SETFD, FD_CLOEXEC);
    ::fcntl(end, F_SETFL, O_NONBLOCK);
  }
  return true;
#endif
}

}  // namespace moescope
