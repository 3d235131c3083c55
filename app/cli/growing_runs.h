// The runs of a file, or of a folder, that another program may still be writing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/comparison/gap_track.h"
#include "core/logs/follower.h"
#include "core/logs/open_runs.h"

namespace moescope {

class GrowingRuns {
 public:
  // A log of JSON lines need not be there yet. Throws std::runtime_error: a file that holds no runs.
  explicit GrowingRuns(const std::string& path);
  // What is there now, in new histories where a log started again or had to be read anew.
  std::vector<HistoryPtr> read();
  std::vector<std::string> remarks() const;

 private:
  OpenedRuns recording_;
  std::unique_ptr<Follower> log_;
};

}  // namespace moescope
