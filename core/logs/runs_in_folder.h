// Lists the runs in a folder and below it for the user to choose from: recordings, logs and tables, recognised by their
// content (file_kind.h). A folder of event files, of router traces, of TransformerEngine's statistics or of an MLflow
// run is one run. The parts of a W&B run are listed as one run with the path of the newest part.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/logs/file_kind.h"

namespace moescope {

struct RunFile {
  std::string path;
  FileKind kind = FileKind::recording;
  std::uintmax_t bytes = 0;                     // for a folder: sum over its files
  std::filesystem::file_time_type last_change;  // for a folder: change of the newest file
};

// Returns at most kMaxRunFiles runs, the newest first. Opens only files that are named like runs, so that a folder of
// texts takes little time. Skips unreadable files.
inline constexpr std::size_t kMaxRunFiles = 1000;
std::vector<RunFile> runs_in_folder(const std::string& folder);

// Returns the error for a file or folder that is not a run: "PATH: is no log that MoEScope knows ...", or the runs in a
// folder.
std::string no_runs_in(const std::string& path, FileKind kind);

}  // namespace moescope
