// Reads dumps of expert statistics, which are no training logs: one total or a few of the tokens of each expert.
//
//   SGLang          expert_distribution_recorder_TIME.pt: logical_count [passes, layers, experts]; of a recording by
//                   pass records.N.global_physical_count and last_physical_to_logical_map
//   vLLM            tensors of its EPLB, expert_load [.., layers, copies of experts] with physical_to_logical_map
//   TensorRT-LLM    rankR.safetensors, with a tensor ITERATION_LAYER for each; or their folder with meta_info.json
//   Megatron-LM     tokens_per_expert/rankR.jsonl (rank_counts.h); or their folder
//   llama.cpp       imatrix.gguf (imatrix.h)
//   transformers    router_logits, [tokens, experts] for each layer (router_logits.h)
//   others          .pt, .npy, .npz and .safetensors with arrays whose names say that they count experts, and JSON of
//                   lists, or of objects whose keys are experts (count_names.h, count_arrays.h)
//
// Sources: SGLang, srt/eplb/expert_distribution.py; vLLM, distributed/eplb; TensorRT-LLM, expert_statistic.py;
// Megatron-LM, training/activation_logging.py; llama.cpp, tools/imatrix.
#pragma once

#include <string>

#include "core/logs/import.h"

namespace moescope {

// Throws std::runtime_error if the file cannot be read or its counts are no numbers of tokens; AmbiguousRouting if a
// number that options.routed may state is needed.
Imported import_expert_counts(const std::string& path, const ImportOptions& options = {});

// True for a dump, recognised by the names in it. `bytes`: the first bytes of a file; empty for a folder. A file that
// cannot be read is none.
bool is_expert_counts(const std::string& path, std::string_view bytes);

}  // namespace moescope
