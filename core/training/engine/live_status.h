// Progress of the open runs, as shown to the user.
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
  std::int64_t step = 0;                 // next step of run A
  std::vector<RunProgress> catching_up;  // runs that joined later and are behind A, which waits for them
  // Speed of all runs together, measured over at least 2 s; after the first step over that step. 0: no step yet.
  double steps_per_s = 0, tokens_per_s = 0;
  std::string error;    // why training failed; empty: no failure
  std::string warning;  // last failure of a checkpoint or the recording, which did not stop training; empty: none
};

}  // namespace moescope
