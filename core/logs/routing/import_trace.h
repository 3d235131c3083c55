// Router traces of Megatron-LM (--moe-routing-trace-path): router_trace_rankR.jsonl, the experts of every token.
//
// A line is one microbatch of one MoE layer at one step on one rank: {"step", "block": "decoder" or "mtp", "layer",
// "rank", "num_tokens", "topk", "top_indices": [[expert]]}, with "mtp_idx" and "logit_shape" [T, E] where they are
// there. Lines of a step and layer are added up, those of other ranks, too. Layers of an MTP block stand after the
// decoder's. The number of experts is that of the logits, else the highest that was chosen, and one more. A slot of -1
// holds no expert. What a rank writes again after it went back to an earlier step counts (restart_rule.h), if lines say
// their rank.
// Not told apart: layers of two pipeline stages, which count from 0 in each. Source: NVIDIA/Megatron-LM,
// megatron/core/transformer/moe/router_trace.py.
#pragma once

#include <string>
#include <string_view>

#include "core/logs/import.h"

namespace moescope {

// `path`: a file, or a folder of them. Loads, and which experts are chosen together: of every step while that stays
// small, else once, of all steps. Opened beside another, flips and overlap (open_runs.h). Throws std::runtime_error:
// cannot be read; holds no such line (with what was wrong with the first one).
Imported import_trace(const std::string& path, const ImportOptions& options = {});

bool is_trace_name(std::string_view file_name);  // router_trace_rank0.jsonl
bool begins_like_trace(std::string_view bytes);  // of a file

// Reads the lines of a file, for the fuzzer; true if anything was understood.
bool read_trace_bytes(std::string_view bytes, BadLines& bad);

}  // namespace moescope
