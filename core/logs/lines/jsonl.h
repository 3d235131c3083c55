// Writes a telemetry frame as one line of JSON, for `moescope-cli train --jsonl`.
//
// Keys of the step are "run", "step", "wall_s", "tokens", the columns of kFrameFigures (figures.h), and "phase_ms":
// {"data": ms, ...}. The rows of core/frame/describe.h follow under the keys of for_each_rows() with the keys of their
// columns: "routers": [{"layer", "max_vio", ..., "tokens_per_expert": [...], ..., "volume": {"ranks", "ranks_per_node",
// "copies", "distinct", "nodes"}}], "quants": [{"layer", "gemm_class", "weight", "operand", "direction", "format",
// "amax", ..., "e8m0_blocks": {"<scale byte>": blocks}}], "gradients": [{"layer" (null: tensors of no layer, or of
// all), ...}], "specialisation": [{"layer", "domain": [[...]], "together": [[...]], "byte": {"<byte>": [...]}, ...}],
// "texts":
// [{"kind", "text" (with escapes as in text_escape.h), ..., "layers": [{"layer", "experts": [[...]], "scores": [...],
// "margin"}]}], "wire": {...} if experts are spread over processes.
//
// Absent values are null; NaN and infinities are the strings "NaN", "Infinity" and "-Infinity"; absent arrays are left
// out. Matrices of counts are arrays of rows, those of floats one array. Before its first step a run has a line of its
// own, without "step": {"run", "name", "source", "layers", "moe_layers", "experts", "top_k", "tokens_per_step",
// "ranks", "ranks_per_node", "dim", "window", "domains", "kernels", "config"}. import_jsonl.h reads all of it back.
#pragma once

#include <string>

#include "core/frame/frame.h"

namespace moescope {

std::string to_json_line(const TelemetryFrame& frame);  // without the newline
std::string to_json_line(const RunInfo& info);

}  // namespace moescope
