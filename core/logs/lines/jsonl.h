// Writes a telemetry frame as one line of JSON, for `moescope-cli train --jsonl`.
//
// Keys are the names of the frame structs' members in snake case, without shape suffixes: {"run", "step", "wall_s",
// "tokens", "ce_loss", ..., "phase_ms": {"data": ms, ...}, "routers": [{"layer", "max_vio", ..., "tokens_per_expert":
// [...], ..., "volume": {"ranks", "ranks_per_node", "copies", "distinct", "nodes"}}], "quants": [{"layer",
// "gemm_class", "weight", "operand", "direction", "format", "amax", ..., "e8m0_blocks": {"<scale byte>": blocks}}],
// "flips": [{"layer", "flip_rate", "overlap", "margin_tokens": [...], "margin_flipped": [...]}], "gradients": [{"layer"
// (null: tensors of no layer, or of all), "tensors", "snr_db", "cosine", "pinned_snr_db", "pinned_cosine"}],
// "router_roundings": [{"layer", "rounding", "changed", "max_vio", "bias_values", "margin_tokens": [...],
// "margin_flipped": [...]}], "specialisation": [{"layer", "domain": [[...]], "together": [[...]], "byte": {"<byte>":
// [...]}, "weight_norm": [...], "weight_sqnr": [...], "gradient_norm": [...], "update_norm": [...], "bias_for_share":
// [...] (33 values an expert)}], "texts": [{"kind", "text" (with escapes as in text_escape.h), "prompt", "domain",
// "loss", "layers": [{"layer", "experts": [[...]], "scores": [...], "margin"}]}], "wire": {"ranks", "over_nodes",
// "sent_bytes", "all_to_all_ms"} if experts are spread over processes, "rounding_flips": [...] with the keys of flips}.
//
// Absent values are null; NaN and infinities are the strings "NaN", "Infinity" and "-Infinity"; absent arrays are left
// out. Matrices are arrays of rows. Before its first step a run has a line of its own, without "step": {"run", "name",
// "source", "layers", "moe_layers", "experts", "top_k", "tokens_per_step", "ranks", "ranks_per_node", "dim", "window",
// "domains", "kernels", "config"}. import_jsonl.h reads all of it back.
#pragma once

#include <string>

#include "core/frame/frame.h"

namespace moescope {

std::string to_json_line(const TelemetryFrame& frame);  // without the newline
std::string to_json_line(const RunInfo& info);

}  // namespace moescope
