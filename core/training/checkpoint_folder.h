// Checkpoints of one or several runs on disk: FOLDER/<step>/<run name>.safetensors, and FOLDER/<step>/runs.txt with the
// files' names in the order of the runs: the first run's batches are everyone's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace moescope {

// Where the window's runs keep theirs: "a/b.checkpoints" for the recording "a/b.moescope"; empty for an empty path.
std::string checkpoints_of(const std::string& recording_path);

// Calls write(<folder of the step>) on a folder beside the final one, brings it to the disk and then renames it, so
// that FOLDER/<step> is either whole or absent, after a power cut, too; an earlier one of the same step is replaced.
// Throws std::runtime_error.
void write_checkpoint(const std::string& folder, std::int64_t step,
                      const std::function<void(const std::string& step_folder)>& write);

// Steps that have a checkpoint, rising; empty when there is none or no such folder.
std::vector<std::int64_t> checkpoint_steps(const std::string& folder);

// Into a step's folder.
void write_run_order(const std::string& step_folder, const std::vector<std::string>& run_names);

// The files of the newest checkpoint at or before a step, of the oldest where there is none, in the order of runs.txt;
// without it by name. Throws std::runtime_error when the folder holds none, or not those that runs.txt names: the first
// run's batches are everyone's, so a wrong order would be another training.
std::vector<std::string> newest_checkpoint(const std::string& folder, std::int64_t step = INT64_MAX);
// The step of that checkpoint; `steps` as checkpoint_steps() gives them, not empty.
std::int64_t checkpoint_at(const std::vector<std::int64_t>& steps, std::int64_t step);

}  // namespace moescope
