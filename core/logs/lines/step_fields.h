// What a line of JSON says of its step: lists with an entry a layer, and values whose names have numbers of layers and
// experts. The forms: import_jsonl.h. All functions throw Unreadable.
#pragma once

#include <cstddef>
#include <vector>

#include "core/frame/frame.h"
#include "core/io/json_values.h"
#include "core/logs/lines/line_names.h"

namespace moescope {

// More layers and experts than can be shown.
void check_imported_shape(std::size_t layers, std::size_t experts);
// The layer is not among those of the run.
void require_layer(int layer, const RunInfo& info);
// How many experts a value that should be their list has, at most one more than there may be; 0: it is no list.
int listed_experts(const JsonValue* load);

// The description of a run, completed from its first step. `dense_layers`: before the MoE layers.
RunInfo info_of_first_step(const RunInfo& stated, int dense_layers, const NamedLine& line, LineNames& router_names);

bool has_nested(const JsonFields& json);  // a list with an entry a layer
// `aux_coeff`: what the values of "aux" lack; kNoValue: not known.
void read_nested(const JsonFields& json, const RunInfo& info, float aux_coeff, TelemetryFrame& frame);
void read_domains(const JsonFields& json, const RunInfo& info, TelemetryFrame& frame);
void join_layer_values(const std::vector<LayerValue>& values, const RunInfo& info, TelemetryFrame& frame);

}  // namespace moescope
