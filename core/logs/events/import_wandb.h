// Reads a run of W&B from its offline files, run-ID.wandb; docs/logs.md, "W&B", says which files and steps. Its keys
// are tags (tag_map.h), and its config is the run's settings. Parts are read in the order of their folders' times;
// restart_rule.h describes repeated steps. Sources of the form: wandb/wandb, wandb/sdk/internal/datastore.py and
// wandb/proto/wandb_internal.proto.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

// `path`: the file of a run, its folder, or one of the three folders above. Throws std::runtime_error if the path
// cannot be read or has no key that the mapping knows (then with its keys).
Imported import_wandb(const std::string& path, const ImportOptions& options = {});

std::vector<std::string> wandb_files(const std::string& file);  // all parts of its run, oldest first

bool begins_like_wandb(std::string_view bytes);
bool is_wandb_folder(const std::string& folder);   // true for the folder of a run, or of runs
bool holds_wandb_runs(const std::string& folder);  // also true if the folders of runs are two levels further down

}  // namespace moescope
