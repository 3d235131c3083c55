// The runs of a file that another program may still be writing: a recording, or a log of JSON lines.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/files/open_runs.h"
#include "core/telemetry/findings/gap_track.h"
#include "core/telemetry/logs/log_follower.h"

namespace moescope {

class GrowingRuns {
 public:
  // A log need not be there yet. Throws std::runtime_error: a file of another kind.
  explicit GrowingRuns(const std::string& path);
  // What is there now. A log that starts again has new histories.
  std::vector<HistoryPtr> read();

 private:
  OpenedRuns recording_;
  std::unique_ptr<LogFollower> log_;
};

}  // namespace moescope
