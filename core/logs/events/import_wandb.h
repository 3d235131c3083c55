// Reads a run of W&B (wandb_log.h). Its keys are tags (tag_map.h), and its config is the run's settings.
//
// A training that was stopped and resumed has a file for each part, wandb/(offline-)run-TIME-ID/run-ID.wandb. The path
// of any part, or of its folder, opens the whole run; the folder above them opens all runs in it. Parts are read in the
// order of their folders' times; restart_rule.h describes repeated steps.
//
// A step is `_step`, which counts the calls of log(), unless the run defines another axis for its loss with
// define_metric(), as Hugging Face's callback does for all keys. A row then belongs to the step that its value of the
// axis gives, or else to that of the row before; rows before the first value have no step and are left out. A key with
// a third axis (such as epochs) is shown at the step of its row. Records without values over steps are not read
// (wandb.proto), nor are paths of event files whose values the history also has.
#pragma once

#include <string>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

// `path`: the file of a run, its folder, or one of the three folders above. Throws std::runtime_error if the path
// cannot be read or has no key that the mapping knows (then with its keys).
Imported import_wandb(const std::string& path, const ImportOptions& options = {});

std::vector<std::string> wandb_files(const std::string& file);  // all parts of its run, oldest first

bool is_wandb_folder(const std::string& folder);   // true for the folder of a run, or of runs
bool holds_wandb_runs(const std::string& folder);  // also true if the folders of runs are two levels further down

}  // namespace moescope
