// A checkpoint's weights without what only training needs (AdamW's moments, load windows, counts): every weight and
// expert_bias in F32 under the names of the checkpoint, the run's config as metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace moescope {

// Throws std::runtime_error: not a checkpoint, cannot be read or written. Returns how many tensors were written.
int export_weights(const std::string& checkpoint, const std::string& path);

// The newest checkpoint file of a run (RunInfo::name; empty: the first) beside a recording, or of that step. Throws
// std::runtime_error naming the steps there are.
std::string kept_checkpoint(const std::string& recording, const std::string& run_name,
                            std::optional<std::int64_t> step);

}  // namespace moescope
