// Checkpoints of one or several runs on disk: FOLDER/<step>/<run name>.safetensors, and FOLDER/<step>/runs.txt with the
// names of the files in the order of the runs. The order matters because all runs read the first run's batches.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace moescope {

// Returns the folder of the checkpoints beside a recording: "a/b.checkpoints" for "a/b.moescope"; empty for an empty
// path.
std::string checkpoints_of(const std::string& recording_path);

struct RunToSave {
  std::string name;
  std::function<void(const std::string& file)> save;
};
// Saves the runs and their order as FOLDER/<step>, which is either complete or as it was before, even after a power cut
// (whole_file.h). Replaces an earlier checkpoint of the step. Throws std::runtime_error.
void write_checkpoint(const std::string& folder, std::int64_t step, const std::vector<RunToSave>& runs);

// Removes the files of a checkpoint, and its folder if nothing else is in it.
void remove_checkpoint(const std::string& folder, std::int64_t step);

// Returns the steps that have a checkpoint, in rising order; empty if there are none or there is no such folder.
std::vector<std::int64_t> checkpoint_steps(const std::string& folder);

// Returns the files of the runs at a step of checkpoint_steps(), by name.
std::vector<std::string> checkpoint_files(const std::string& folder, std::int64_t step);

// Returns the files of the newest checkpoint at or before `step`, else of the oldest checkpoint. The order is that of
// runs.txt, or by name if there is no runs.txt. Throws std::runtime_error if the folder has no checkpoint, or if
// its files are not those in runs.txt, because a wrong order of the runs would change the training.
std::vector<std::string> newest_checkpoint(const std::string& folder, std::int64_t step = INT64_MAX);
// Returns the step whose checkpoint newest_checkpoint() chooses; `steps` must be the result of checkpoint_steps() and
// not empty.
std::int64_t checkpoint_at(const std::vector<std::int64_t>& steps, std::int64_t step);

// The checksum of a checkpoint file: CRC-32 (zlib) over all its bytes, header and tensors, with the eight hex digits of
// the checksum itself counted as zeros. It detects any flipped bit, any two within 512 MB, and larger damage except for
// one case in 2^32.
inline constexpr const char* kChecksumKey = "crc32";        // key in the metadata of the file
inline constexpr const char* kChecksumToCome = "00000000";  // value until write_checksum()

// Writes the checksum into a safetensors file with kChecksumKey = kChecksumToCome. Throws std::runtime_error.
void write_checksum(const std::string& path);
// Throws std::runtime_error with the path if the checksum does not match or the file has none.
void require_checksum(const std::string& path);

// Exports the weights and expert_bias of a checkpoint in F32, under the checkpoint's names, without what only training
// needs: AdamW's moments, load windows and counts, momentum of biases, placement. Metadata: the run's config.
// Returns the number of tensors written. Throws std::runtime_error if the file is not a checkpoint, or cannot be read
// or written.
int export_weights(const std::string& checkpoint, const std::string& path);

// Returns the checkpoint file of a run (RunInfo::name; empty: the first run) beside a recording: the newest, or that of
// `step`. Throws std::runtime_error with the available steps.
std::string kept_checkpoint(const std::string& recording, const std::string& run_name,
                            std::optional<std::int64_t> step);

}  // namespace moescope
