// What MPI sent in the all-to-alls of a step, beside the count from the routing.
#pragma once

#include <QStringList>

#include "core/recording/history/history.h"

namespace moescope {

// "MPI sent 16.4 kB in this step, as counted; the slowest rank took 2.5 ms (measured)", from long to short; empty if
// the run trains in one process.
QStringList wireForms(const TelemetryFrame& frame, const History& history);

}  // namespace moescope
