// Reads the experts of every token, as inference engines and trainers of reinforcement learning write them;
// docs/logs.md, "Routed experts", lists the forms. routed_shape.h finds the shape of a flat array and the slots without
// experts.
#pragma once

#include <string>
#include <string_view>

#include "core/logs/import.h"

namespace moescope {

// Throws std::runtime_error if the file cannot be read or has no routing (then with the first error); AmbiguousRouting
// if several shapes are possible and options.routed does not decide.
Imported import_routed_experts(const std::string& path, const ImportOptions& options = {});

// Recognises a file by its first bytes, at most 4096: JSON with the key "routed_experts", a NumPy array of integers
// with three or four dimensions, or tensors that have integers under a name of routed experts. If the name of the file
// is such a name, any file of tensors, or a NumPy array of integers with one to four dimensions; any JSON if it
// contains "routed_experts".
bool is_routed_experts(const std::string& path, std::string_view bytes);

}  // namespace moescope
