// The experts of every token, as inference engines and trainers of reinforcement learning hand them on:
//
//   vLLM     JSON with "routed_experts", base64 of a NumPy file [tokens, layers, K]; or such an .npy file, as its
//   Python
//            interface gives the array
//   SGLang   JSON with "routed_experts", base64 of little-endian int32 [tokens, layers, K], flat: at most
//            prompt_tokens + completion_tokens - 1 rows of the same response (routed_experts_start_len leaves out the
//            first)
//   verl     an integer tensor [sequences, tokens, layers, K] in .pt, .safetensors or .npy; of several those with
//            "routed_experts" in their names
//
// JSON: a response, a list of them, or one a line; "routed_experts" may stand anywhere in it, also as nested lists. A sequence becomes
// a step. Layers count from 0 and dense ones are in the file as zeros: a layer whose K experts are all the same one has
// no router there, or the token is padding, and is passed over. The number of experts is stated, or that of the highest
// chosen and one more. An expert twice in a row shows that these are no experts, or of another shape. routed_shape.h says which shape a flat array has and which slots hold no expert. Sources: vLLM
// PRs 28284 and 38939, SGLang PR 12162, verl's DataProto.
#pragma once

#include <string>
#include <string_view>

#include "core/logs/import.h"

namespace moescope {

// Throws std::runtime_error: cannot be read; holds no routing (with what was wrong with the first line).
// AmbiguousRouting: options.routed decides.
Imported import_routed_experts(const std::string& path, const ImportOptions& options = {});

// By the first bytes of a file: JSON with that key, a NumPy array of integers of three or four dimensions, or a file of
// tensors with "routed_experts" in its name.
bool begins_like_routed_experts(std::string_view file_name, std::string_view bytes);

// Reads a JSON text, for the fuzzer; true if anything was understood.
bool read_routed_bytes(std::string_view bytes, BadLines& bad);

}  // namespace moescope
