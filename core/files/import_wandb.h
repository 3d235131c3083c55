// A run of W&B (wandb_log.h) as a history: its keys are tags (tag_map.h), its config the run's settings.
#pragma once

#include <string>

#include "core/telemetry/logs/import.h"

namespace moescope {

// Numbers, lists by expert and lists of lists by layer and expert are read; the mapping is options.tags, else the
// built-in one. Throws std::runtime_error: cannot be read; holds no key that the mapping knows (with the keys there
// are).
Imported import_wandb(const std::string& path, const ImportOptions& options = {});

// Reads the bytes of a file, for the fuzzer; true if anything was understood.
bool read_wandb_bytes(std::string_view bytes, BadLines& bad);

}  // namespace moescope
