// Reads dumps of expert statistics (docs/logs.md), which are no training logs: one total or a few of the tokens of each
// expert. Files of Megatron-LM, llama.cpp and transformers have readers of their own (dump_readers.h). In all
// others, names say which arrays count experts (count_names.h, count_arrays.h):
//   SGLang          logical_count [passes, layers, experts]; records.N.global_physical_count and
//                   last_physical_to_logical_map
//   vLLM            expert_load [.., layers, copies of experts] and physical_to_logical_map
//   TensorRT-LLM    ITERATION_LAYER in rankR.safetensors
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
