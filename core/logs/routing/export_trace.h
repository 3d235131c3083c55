// Where the time of each step of a recording went, as a Chrome trace (Perfetto, chrome://tracing). Measured.
//
// Each run is a process of the trace; the end of a step is the frame's wall time. Phases are measured as sums over the
// step (all layers, forward and backward) and drawn end to end in the order of kPhaseOrder: their lengths are measured,
// their positions within the step are not. Counters: cross-entropy loss, tokens/s, and the time of all-to-alls by rank
// where experts were spread over processes.
#pragma once

#include <functional>
#include <string>

namespace moescope {

// Throws std::runtime_error: the recording cannot be read, the file not written. `progress` gets 0..1 and returns false
// to cancel, which leaves no file; returns whether it was written.
bool export_trace(const std::string& recording, const std::string& path,
                  const std::function<bool(double)>& progress = {});

}  // namespace moescope
