// Writes a whole recording as JSON lines (jsonl.h): for each run a line that describes it, then one line per step. Live
// changes, notes and events become "markers" [{"step", "kind", "text"}] of the next step, or of the last step if none
// follows. Changes also have "key" and "value": the setting and its new value.
#pragma once

#include <functional>
#include <string>

namespace moescope {

// Returns true if the file was written. `progress` is called with 0..1 and returns false to cancel, which leaves no
// file. Throws std::runtime_error if the recording cannot be read or the file cannot be written.
bool export_jsonl(const std::string& recording, const std::string& path,
                  const std::function<bool(double)>& progress = {});

}  // namespace moescope
