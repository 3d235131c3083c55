// Stops a training without a window, or another command, when the process receives a signal.
#pragma once

#include "core/cluster/ranks/ranks.h"

namespace moescope {

// After this call SIGINT, SIGTERM and SIGHUP (unless it is ignored, as under nohup) stop the training after the present
// step. Collective over `ranks`; nullptr: one process. Ranks whose step waits for a dead rank end soon after mpirun
// sends them SIGTERM, and one rank on each machine prints why.
void catch_signals(Ranks* ranks);
// After this call stop_signal() returns `signal` once it was received, unless it is ignored. `flags`: of sigaction().
void stop_unless_ignored(int signal, unsigned flags);
int stop_signal();                    // the signal that was received; 0: none
const char* signal_text(int signal);  // "Ctrl-C"

}  // namespace moescope
