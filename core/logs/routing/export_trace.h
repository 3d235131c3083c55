// Writes the measured phases of each step of a recording as a Chrome trace (Perfetto, chrome://tracing).
//
// Each run is a process of the trace. A step ends at the wall time of its frame. The duration of a phase is its sum
// over the step (all layers, forward and backward); phases are drawn end to end in the order of the enumerators of
// Phase. Their durations are measured, their positions within the step are not. Counters: cross-entropy loss, tokens/s,
// and all-to-all time by rank if experts were spread over processes.
#pragma once

#include <functional>
#include <string>

namespace moescope {

// Returns true if the file was written. `progress` is called with 0..1 and returns false to cancel, which leaves no
// file. Throws std::runtime_error if the recording cannot be read or the file cannot be written.
bool export_trace(const std::string& recording, const std::string& path,
                  const std::function<bool(double)>& progress = {});

}  // namespace moescope
