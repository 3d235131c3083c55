// Opens files that hold runs, of any kind, as runs A, B, ... in the order given; used by the window and moescope-cli.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

// The lines of one file that could not be read.
struct SkippedLines {
  std::string path;
  BadLines bad;
};

struct OpenedRuns {
  std::vector<std::shared_ptr<History>> histories;  // empty: it was cancelled
  std::vector<SkippedLines> skipped;                // of files that had such lines
  std::vector<std::string> remarks;                 // of all files: "PATH: goes on from step 101: dropped ..."
  std::vector<std::string> missing;                 // for recordings without their log: RecordingReader::missing()
  // For files that a training may still be writing: each appends what is new to `histories` and returns how much it
  // was. One thread at a time; throws std::runtime_error when the file can no longer be read.
  std::vector<std::function<std::size_t()>> more;
  bool glanced = false;  // options.glance was set, and at least one history is only a part of its file
};

// Refuses more than `most_runs` runs. `options.run` is the number of the first; the callbacks of `options` are called
// for all files but recordings. Throws std::runtime_error with the file.
OpenedRuns open_runs(const std::vector<std::string>& paths, const ImportOptions& options, std::size_t most_runs);

}  // namespace moescope
