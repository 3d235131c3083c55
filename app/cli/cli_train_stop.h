// How a training without a window is stopped from outside.
#pragma once

#include "core/parallel/ranks.h"

namespace moescope {

// From now on SIGINT, SIGTERM and SIGHUP (unless it is ignored, as nohup does) stop the training after the step in
// flight; collective over `ranks` (nullptr: one process).
// Ranks whose step waits for one that is gone end soon after mpirun asks them to, and one of each machine says so.
void catch_signals(Ranks* ranks);
int stop_signal();                    // that has come; 0: none
const char* signal_text(int signal);  // "Ctrl-C"

}  // namespace moescope
