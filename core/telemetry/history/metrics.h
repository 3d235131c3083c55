// The table of all figures on the screen: name, unit, formula, how to read it, and the source of the definition.
//
// Legend of the formulas: T tokens of the batch, E routed experts, K top_k, n_e slots assigned to expert e, n their
// mean T K / E, u_e = n_e / n; x a value before and q after quantization. One entry per Metric and per figure of
// QuantFrame, and the array figures that panels draw.
#pragma once

#include <span>
#include <string_view>

#include "core/telemetry/history/history.h"

namespace moescope {

// The kind of a number: where it comes from. provenance_meaning() explains each in a sentence.
enum class Provenance { measured_here, measured_elsewhere, counted, modelled, fitted, assumed, published };
inline constexpr int kNumProvenances = 7;
const char* provenance_name(Provenance provenance);     // "measured here", "measured elsewhere", "counted", ...
const char* provenance_meaning(Provenance provenance);  // for legends

struct MetricInfo {
  const char* key;      // field name, also in recordings and JSON lines
  const char* name;     // on screen
  const char* unit;     // "" for a plain number
  const char* formula;  // plain text
  const char* good;     // what good looks like
  const char* bad;      // what bad looks like, and what it means
  const char* knob;     // config keys that move it; "" for none
  const char* source;   // paper or repository of the definition
  Provenance provenance;
};

const MetricInfo& metric_info(Metric metric);
// Figures of QuantFrame, in its order: amax, sqnr_db, relative_l2, cosine, underflow, clipped, clipped_blocks, crest,
// and e8m0_blocks.
std::span<const MetricInfo> quant_metrics();
// Figures drawn as arrays: utilisation, expert_bias, score_mass, gate_mass, copies, distinct, nodes, margin_tokens,
// margin_flipped, score_histogram, margin_histogram, domain_share, domain_lift, coactivation, byte_affinity,
// routing_stability, unchanged_choices, bytes_moved,
// bytes_across_nodes, dispatch_overload, bytes_saved.
std::span<const MetricInfo> array_metrics();
// Any of these by key; "router_aux_loss" and "router_z_loss" are the per-layer terms. nullptr: there is none.
const MetricInfo* find_metric(std::string_view key);

}  // namespace moescope
