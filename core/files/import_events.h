// TensorBoard event files: scalars, histograms and tensors of a training, by a mapping of tags (tag_map.h).
//
// A path is one event file, or a folder: every folder below it that holds event files is a run. Of what was written
// twice for a step (a training that went on from a checkpoint) the later counts. A record whose checksum is wrong is
// counted and skipped; after a damaged header nothing of the file can be found, and that is counted, too. A layer's
// loads are taken where all its experts have one.
#pragma once

#include <string>

#include "core/telemetry/logs/import.h"

namespace moescope {

// The mapping is options.tags, else moescope-tags.toml in the folder of the events, else the built-in one. Throws
// std::runtime_error: cannot be read; holds no tag that the mapping knows (with the tags there are).
Imported import_events(const std::string& path, const ImportOptions& options = {});

// One event file's bytes, for the fuzzer: true where something was understood.
bool read_event_bytes(std::string_view bytes, BadLines& bad);

}  // namespace moescope
