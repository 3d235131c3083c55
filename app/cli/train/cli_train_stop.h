// Stops a training without a window, or another command, by signals.
#pragma once

#include "core/parallel/ranks.h"

namespace moescope {

// From now on SIGINT, SIGTERM and SIGHUP (unless it is ignored, as nohup does) stop the training after the step in
// flight; collective over `ranks` (nullptr: one process).
// Ranks whose step waits for a dead rank end soon after mpirun asks them to, and one on each machine prints why.
void catch_signals(Ranks* ranks);
// From now on the signal shows in stop_signal(), unless it is ignored; `flags`: of sigaction().
void stop_unless_ignored(int signal, unsigned flags);
int stop_signal();                    // the signal received so far; 0: none
const char* signal_text(int signal);  // "Ctrl-C"

}  // namespace moescope
