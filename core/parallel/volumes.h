// All-to-all volumes counted from a real routing.
//
// Legend: T tokens, K top_k, E experts, R ranks, N nodes. Source rank of token t is t * R / T (contiguous shards),
// expert e lives on rank e / (E / R) (contiguous placement); nodes are `ranks_per_node` consecutive ranks.
// Standard all-to-all: one copy per chosen expert. DeepEP (docs of V1, "normal" kernels): one copy per destination
// node over the network, forwarded inside the node, copies for one rank merged.
#pragma once

#include <cstdint>
#include <span>

#include "core/telemetry/frame.h"

namespace moescope {

// topk_TK: chosen expert of each slot, token-major. E % R == 0 is required.
VolumeFrame count_volumes(std::span<const std::int32_t> topk_TK, int top_k, int n_experts, int ranks, int ranks_per_node);

}  // namespace moescope
