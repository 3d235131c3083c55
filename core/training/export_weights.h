// Exports a checkpoint's weights without what only training needs (AdamW's moments, load windows, counts): every weight
// and expert_bias in F32 under the checkpoint's names, the run's config as metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace moescope {

// Throws std::runtime_error: not a checkpoint, cannot be read or written. Returns how many tensors were written.
int export_weights(const std::string& checkpoint, const std::string& path);

// The checkpoint file of a run (RunInfo::name; empty: the first) beside a recording: the newest, or that of `step`.
// Throws std::runtime_error naming the available steps.
std::string kept_checkpoint(const std::string& recording, const std::string& run_name,
                            std::optional<std::int64_t> step);

}  // namespace moescope
