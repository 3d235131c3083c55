// Reads the values of a step from a JSON line: lists with an entry for each layer, and values whose names contain
// layers and experts. import_jsonl.h describes the forms. All functions throw Unreadable.
#pragma once

#include <cstddef>
#include <vector>

#include "core/files/text/json_values.h"
#include "core/frame/frame.h"
#include "core/logs/lines/line_names.h"

namespace moescope {

// Throws if there are more layers and experts than can be shown.
void check_imported_shape(std::size_t layers, std::size_t experts);
// Throws if the layer is not one of the run's layers.
void require_layer(int layer, const RunInfo& info);
// Returns the number of experts in a list of loads, at most the allowed number plus one; 0 if the value is not a list.
int listed_experts(const JsonValue* load);

// Completes the description of a run from its first step. `dense_layers`: number of layers before the MoE layers.
RunInfo info_of_first_step(const RunInfo& stated, int dense_layers, const NamedLine& line, LineNames& router_names);

bool has_nested(const JsonFields& json);  // true if the line has a list with an entry for each layer
// Reads the lists with an entry for each layer into `frame`. `aux_coeff`: factor of the values of "aux"; kNoValue: not
// known, so that they are not read.
void read_nested(const JsonFields& json, const RunInfo& info, float aux_coeff, TelemetryFrame& frame);
void read_domains(const JsonFields& json, const RunInfo& info, TelemetryFrame& frame);
// Reads loads by expert in a line of one layer.
void add_loads_by_expert(const std::vector<NamedLayerValue>& values, const RunInfo& info, RouterFrame& router);
// Computes the losses of a step that is given layer by layer: each is the sum over the layers.
void sum_up(TelemetryFrame& frame);
void join_layer_values(const std::vector<NamedLayerValue>& values, const RunInfo& info, TelemetryFrame& frame);

}  // namespace moescope
