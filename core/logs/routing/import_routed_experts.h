// Reads the experts of every token, as inference engines and trainers of reinforcement learning write them:
//
//   vLLM     JSON with "routed_experts", base64 of a NumPy file [tokens, layers, K]; or such an .npy file, written from
//            the array of its Python interface
//   SGLang   JSON with "routed_experts", base64 of a flat array of little-endian int32 [tokens, layers, K], with at
//            most prompt_tokens + completion_tokens - 1 tokens of the response (routed_experts_start_len leaves out
//            the first ones)
//   verl     an integer tensor [sequences, tokens, layers, K] in .pt, .safetensors or .npy; if a file has several
//            tensors, those with "routed_experts" in their names
//   others   integer arrays under names such as topk_ids, or of three axes: --layers tells which axis is that of the
//            layers, [tokens, layers, K] or [layers, tokens, K]; arrays [tokens, K] whose names have the layer
//
// "routed_experts" may be at any depth, also as nested lists. A sequence becomes a step. If all K experts of a token in
// a layer are equal, the layer has no router or the token is padding, and the token is left out in this layer; with K =
// 1, a layer of zeros is left out. If a token has an expert twice in a layer, the numbers are not experts or have
// another shape. routed_shape.h finds the shape of a flat array and the slots without experts. Sources: vLLM PRs 28284
// and 38939, SGLang PR 12162, verl's DataProto.
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
