// Exports the weights and expert_bias of a checkpoint in F32, under the checkpoint's names, without what only training
// needs: AdamW's moments, load windows and counts, momentum of biases, placement. Metadata: the run's config.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace moescope {

// Returns the number of tensors written. Throws std::runtime_error if the file is not a checkpoint, or cannot be read
// or written.
int export_weights(const std::string& checkpoint, const std::string& path);

// Returns the checkpoint file of a run (RunInfo::name; empty: the first run) beside a recording: the newest, or that of
// `step`. Throws std::runtime_error with the available steps.
std::string kept_checkpoint(const std::string& recording, const std::string& run_name,
                            std::optional<std::int64_t> step);

}  // namespace moescope
