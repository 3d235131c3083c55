// A whole recording as JSON lines (jsonl.h): for each run a line that describes it, then one line per step. Live
// changes, notes and events are "markers" [{"step", "kind", "text"}] of the step that follows them, or of the last
// step; changes have "key" and "value", too: the setting and its new value.
#pragma once

#include <functional>
#include <string>

namespace moescope {

// Throws std::runtime_error: the recording cannot be read, the file not written. `progress` gets 0..1 and returns false
// to cancel, which leaves no file; returns whether it was written.
bool export_jsonl(const std::string& recording, const std::string& path,
                  const std::function<bool(double)>& progress = {});

}  // namespace moescope
