// Reads the tokens of each expert from an importance matrix of llama.cpp (llama-imatrix --output-format gguf): tensors
// blk.LAYER.ffn_gate_exps.weight.counts [experts]. A tensor of attention counts all tokens, from which top_k follows.
// An importance matrix is one total of a text. Format: ggml/docs/gguf.md.
#pragma once

#include <string>
#include <string_view>

#include "core/logs/import.h"

namespace moescope {

bool begins_like_gguf(std::string_view bytes);
bool is_imatrix(const std::string& path);  // of a GGUF file; throws std::runtime_error if it is damaged

// Throws std::runtime_error if the file is damaged, or has no counts of experts.
Imported import_imatrix(const std::string& path, const ImportOptions& options);

}  // namespace moescope
