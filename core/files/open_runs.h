// Opens files that hold runs, of whatever kind, as runs A, B, ... in the order given: for the window and moescope-cli.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/telemetry/logs/import.h"

namespace moescope {

// What one file had that could not be read.
struct SkippedLines {
  std::string path;
  BadLines bad;
  const char* unit = "line";
};

struct OpenedRuns {
  std::vector<std::shared_ptr<History>> histories;  // empty: it was cancelled
  std::vector<SkippedLines> skipped;                // of the files that had any
  std::vector<std::string> missing;                 // of recordings without their log: RecordingReader::missing()
  // Of files that a training may still write: appends what came since to `histories`, and says how much. One thread at
  // a time; throws std::runtime_error when the file can be read no more.
  std::vector<std::function<std::size_t()>> more;
  bool glanced = false;  // options.glance, and at least one is not all that its file holds
};

// More runs than can be open at once are refused: `most_runs`. `options.run` is the number of the first; its callbacks
// hear of all files but recordings. Throws std::runtime_error with the file.
OpenedRuns open_runs(const std::vector<std::string>& paths, const ImportOptions& options, std::size_t most_runs);

}  // namespace moescope
