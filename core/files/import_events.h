// TensorBoard event files: scalars, histograms and tensors of a training, by a mapping of tags (tag_map.h).
//
// A path is one event file, or a folder: every folder below it that holds event files is a run. A record whose
// checksum is wrong is counted and skipped; after a damaged header the rest of the file cannot be read, and that is
// counted, too. Steps that come twice, and loads: tagged_run.h.
#pragma once

#include <string>

#include "core/telemetry/logs/import.h"

namespace moescope {

// The mapping is options.tags, else moescope-tags.toml in the folder of the events, else the built-in one. Throws
// std::runtime_error: cannot be read; holds no tag that the mapping knows (with the tags there are).
Imported import_events(const std::string& path, const ImportOptions& options = {});

// Reads the bytes of one event file, for the fuzzer; true if anything was understood.
bool read_event_bytes(std::string_view bytes, BadLines& bad);

}  // namespace moescope
