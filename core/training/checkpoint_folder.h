// Checkpoints of one or several runs on disk: FOLDER/<step>/<run name>.safetensors, and FOLDER/<step>/runs.txt with the
// names of the files in the order of the runs: all runs read the first run's batches.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace moescope {

// The folder beside a recording: "a/b.checkpoints" for "a/b.moescope"; empty for an empty path.
std::string checkpoints_of(const std::string& recording_path);

// Calls write() with a temporary folder, syncs it to the disk and then renames it to FOLDER/<step>, which is thus
// either complete or absent, even after a power cut. Replaces an earlier checkpoint of the same step. Throws
// std::runtime_error.
void write_checkpoint(const std::string& folder, std::int64_t step,
                      const std::function<void(const std::string& step_folder)>& write);

// Steps that have a checkpoint, rising; empty when there is none or no such folder.
std::vector<std::int64_t> checkpoint_steps(const std::string& folder);

// Writes runs.txt into a step's folder.
void write_run_order(const std::string& step_folder, const std::vector<std::string>& run_names);

// The files of the newest checkpoint at or before a step, of the oldest where there is none, in the order of runs.txt;
// by name if there is no runs.txt. Throws std::runtime_error when the folder holds none, or not those that runs.txt
// names: all runs read the first run's batches, so a wrong order would be another training.
std::vector<std::string> newest_checkpoint(const std::string& folder, std::int64_t step = INT64_MAX);
// The step of that checkpoint; `steps` as checkpoint_steps() gives them, not empty.
std::int64_t checkpoint_at(const std::vector<std::int64_t>& steps, std::int64_t step);

}  // namespace moescope
