// Where the time of each step of a recording went, as a Chrome trace (Perfetto, chrome://tracing). Measured.
//
// A process a run; its steps end when their frame says so. A step's phases are measured as sums over the step (all
// layers, forward and backward); they are laid end to end in the order of kPhaseOrder, so their lengths are measured
// and their places within the step are not. Counters: cross-entropy loss, tokens/s, and the time of all-to-alls by
// rank where experts were spread over processes.
#pragma once

#include <functional>
#include <string>

namespace moescope {

// Throws std::runtime_error: the recording cannot be read, the file not written. `progress` gets 0..1 and returns false
// to cancel, which leaves no file; returns whether it was written.
bool export_trace(const std::string& recording, const std::string& path,
                  const std::function<bool(double)>& progress = {});

}  // namespace moescope
