// How far a lab is, for those who look at it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moescope {

struct RunProgress {
  int run = 0;
  std::int64_t step = 0;  // next step to take
};

struct LiveStatus {
  bool running = false;                  // false: paused, finished or failed
  std::int64_t step = 0;                 // next step that run A takes
  std::vector<RunProgress> catching_up;  // runs that joined later and are still behind A; A waits for them
  double tokens_per_s = 0;
  std::string error;    // why training failed; empty: it did not
  std::string warning;  // the last failure that did not stop it, of a checkpoint or the recording; empty: none
};

}  // namespace moescope
