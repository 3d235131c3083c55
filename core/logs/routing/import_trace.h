// Reads router traces of Megatron-LM (--moe-routing-trace-path): router_trace_rankR.jsonl, with the experts of every
// token.
//
// A line is one microbatch of one MoE layer at one step on one rank: {"step", "block": "decoder" or "mtp", "layer",
// "rank", "num_tokens", "topk", "top_indices": [[expert]]}, optionally with "mtp_idx" and "logit_shape" [T, E]. The
// loads of a step and layer are summed over microbatches and ranks. Layers of an MTP block follow the decoder's. The
// number of experts is that of the logits, else the highest chosen expert plus one. A slot of -1 holds no expert. If
// lines give their rank and a rank goes back to an earlier step, only the repeated lines count (restart_rule.h). Layers
// of two pipeline stages cannot be told apart, because each stage counts from 0. Source: NVIDIA/Megatron-LM,
// megatron/core/transformer/moe/router_trace.py.
#pragma once

#include <string>
#include <string_view>

#include "core/logs/import.h"

namespace moescope {

// `path`: a file, or a folder of such files. Reads loads and co-activation of experts (for every step if the tables are
// small, else once for all steps). If run A also has the experts of every token (options.routes), also computes flips
// and overlap. Throws std::runtime_error if the path cannot be read or has no such line (then with the first error).
Imported import_trace(const std::string& path, const ImportOptions& options = {});

bool is_trace_name(std::string_view file_name);  // router_trace_rank0.jsonl
bool begins_like_trace(std::string_view bytes);  // first bytes of a file

}  // namespace moescope
