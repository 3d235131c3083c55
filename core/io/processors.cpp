#include "core/io/processors.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace moescope {

int usable_processors() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));  // more processors than the set holds
}

}  // namespace moescope
