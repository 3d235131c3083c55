// Reads TensorBoard event files (tensorboard.proto): the scalars, histograms and tensors of a training.
//
// A path is one event file, or a folder. The folder and each folder below it is a run if it has event files, which are
// read in the order of their names. A record with a wrong checksum is skipped; after a damaged header the rest of the
// file cannot be read. Both are counted. Restarts are found by steps and by session_log, whatever the file_version.
// Writers give the plugin of a tag with its first value only. In "histograms" a tensor [k, 3] holds buckets (from, to,
// count); plugins without numbers by layer or expert are refused; else the shape of the tensor decides.
#pragma once

#include <filesystem>
#include <string>

#include "core/logs/import.h"

namespace moescope {

// Throws std::runtime_error if the path cannot be read, or has no tag that the mapping knows (then with its tags).
Imported import_events(const std::string& path, const ImportOptions& options = {});

bool is_event_file(const std::filesystem::path& path);  // judged by the name

}  // namespace moescope
