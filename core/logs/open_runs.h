// Opens files of any kind with runs as runs A, B, ... in the order given; used by the window and moescope-cli.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

// Unreadable lines of one file.
struct SkippedLines {
  std::string path;
  BadLines bad;
};

// What the user states about a log: rules for its names, the text of a mapping file (tag_map.h), and numbers.
struct StatedLog {
  std::string rules;
  RoutedShape shape;
  void put_into(ImportOptions& options) const;
};
using StatedLogs = std::map<std::string, StatedLog>;  // by the path of the log

struct OpenedRuns {
  std::vector<std::shared_ptr<History>> histories;  // empty if cancelled
  std::vector<SkippedLines> skipped;                // files with unreadable lines
  std::vector<std::string> remarks;     // remarks on all files: "PATH: continues from step 101: dropped ..."
  std::vector<ImportAccount> accounts;  // of the files that are no recordings, in their order
  std::vector<std::string> missing;     // RecordingReader::missing() of the recordings with missing parts
  // A function for each recording, to which a training may still write: appends the new steps to `histories` and
  // returns their number. Must not run in two threads at the same time. Throws std::runtime_error if the file can no
  // longer be read.
  std::vector<std::function<std::size_t()>> more;
  bool glanced = false;  // at least one history is only a sample of its file (options.glance)
};

// `options.run` is the number of the first run. Calls options.progress for all files, the other callbacks for all files
// except recordings. Throws std::runtime_error with the file if it cannot be read or the files have more than
// `most_runs` runs.
OpenedRuns open_runs(const std::vector<std::string>& paths, const ImportOptions& options, std::size_t most_runs,
                     const StatedLogs& stated = {});

}  // namespace moescope
