// Which runs a folder holds, so that a person can choose among them: recordings, logs and tables in it and in the
// folders below it, told by their content (file_kind.h). Folders of event files, of router traces and of MLflow are one
// run each, and so are the parts of a run of W&B, whose newest file stands for all of them.
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
  std::uintmax_t bytes = 0;                     // of a folder: of the files in it
  std::filesystem::file_time_type last_change;  // of a folder: of the newest file in it
};

// The newest first, at most kMostRunFiles of them. Looks only into files whose names are those of runs, so that a
// folder of texts costs little. What cannot be read is passed over.
inline constexpr std::size_t kMostRunFiles = 1000;
std::vector<RunFile> runs_in_folder(const std::string& folder);

// Why a file or folder that is no run is refused where one is wanted: "PATH: is no log that MoEScope knows ...", or the
// runs that a folder holds.
std::string no_runs_in(const std::string& path, FileKind kind);

}  // namespace moescope
