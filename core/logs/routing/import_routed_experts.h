// Experts of every token, as written by inference engines and trainers of reinforcement learning:
//
//   vLLM     JSON with "routed_experts", base64 of a NumPy file [tokens, layers, K]; or such an .npy file, written from
//            the array of its Python interface
//   SGLang   JSON with "routed_experts", base64 of little-endian int32 [tokens, layers, K], flat: at most
//            prompt_tokens + completion_tokens - 1 rows of the same response (routed_experts_start_len leaves out the
//            first)
//   verl     an integer tensor [sequences, tokens, layers, K] in .pt, .safetensors or .npy; if a file has several
//            tensors, those with "routed_experts" in their names
//
// JSON: a response, a list of responses, or one per line; "routed_experts" may be at any depth, also as nested lists. A
// sequence becomes a step. Layers count from 0, and dense layers are zeros in the file: if all K experts of a token are
// equal, the layer has no router or the token is padding, and the token is skipped; with K = 1 a layer of zeros is. The
// number of experts is stated, else the highest chosen expert plus one. If a row has an expert twice, the numbers are
// not experts or have another shape. routed_shape.h finds the shape of a flat array and the slots without experts.
// Sources: vLLM PRs 28284 and 38939, SGLang PR 12162, verl's DataProto.
#pragma once

#include <string>
#include <string_view>

#include "core/logs/import.h"

namespace moescope {

// Throws std::runtime_error if the file cannot be read or has no routing (then with the error of the first line);
// AmbiguousRouting if options.routed must decide.
Imported import_routed_experts(const std::string& path, const ImportOptions& options = {});

// Recognises a file by its first bytes: JSON with that key, a NumPy array of integers with three or four dimensions, or
// a file of tensors with "routed_experts" in its name.
bool begins_like_routed_experts(std::string_view file_name, std::string_view bytes);

}  // namespace moescope
