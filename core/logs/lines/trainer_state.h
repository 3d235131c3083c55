// Reads trainer_state.json of Hugging Face's Trainer, the entries of its log_history as JSON lines (import_jsonl.h),
// and other JSON that has the steps in a list, or all values of a name together (docs/logs.md).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/logs/import.h"

namespace moescope {

inline constexpr std::uint64_t kMaxStateBytes = std::uint64_t{32} << 20;
enum class JsonHistory { none, steps, columns };   // a list of steps; the values of all steps together
JsonHistory json_history(std::string_view bytes);  // of a whole file
bool names_a_step(std::string_view json);          // it has a key that is usual for a step

// Throws std::runtime_error if the file cannot be read or has no step.
Imported import_trainer_state(const std::string& path, const ImportOptions& options = {});

}  // namespace moescope
