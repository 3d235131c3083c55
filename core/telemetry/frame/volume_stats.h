// Figures of one MoE layer's dispatch that are read off its token copies. Legend: T tokens, R ranks, N nodes.
#pragma once

#include <cstdint>

#include "core/telemetry/frame/frame.h"

namespace moescope {

// sum distinct_RR / T: ranks that a token is sent to on average, its own counted. What DeepEP's merging saves of the
// standard all-to-all is 1 - this / K. kNoValue where no volumes were counted.
float ranks_per_token(const VolumeFrame& volume, std::int64_t tokens);

// sum nodes_RN / T: the same in nodes; what crosses the network in a two-stage all-to-all follows from it.
float nodes_per_token(const VolumeFrame& volume, std::int64_t tokens);

// max_r n_r / mean_r n_r, n_r the token copies that arrive on rank r (column sums of copies_RR): 1 is even. The
// fullest rank's experts set the pace of all. Megatron-LM's overload factor. kNoValue where nothing arrived.
float rank_overload(const VolumeFrame& volume);

// Sums over one layer's dispatch, in token copies. Those that stay on their rank are received, but not moved.
struct DispatchTotals {
  double moved = 0;                 // to other ranks
  double across_nodes = 0;          // of these, to another node; de-duplicated: one for each node that a token goes to
  double fullest = 0;               // received by the rank that gets most, own ones included
  double received = 0;              // by all ranks
  double max_over_mean = kNoValue;  // fullest R / received
};
DispatchTotals dispatch_totals(const VolumeFrame& volume, bool deduplicated);

}  // namespace moescope
