// Figures of one MoE layer's dispatch, computed from its token copies. Legend: T tokens, R ranks, N nodes.
#pragma once

#include <cstdint>

#include "core/frame/frame.h"

namespace moescope {

// sum distinct_RR / T: mean number of ranks that a token is sent to, including its own. kNoValue if no volumes were
// counted.
float ranks_per_token(const VolumeFrame& volume, std::int64_t tokens);

// sum nodes_RN / T: mean number of nodes that a token is sent to; the network traffic of a two-stage all-to-all follows
// from it.
float nodes_per_token(const VolumeFrame& volume, std::int64_t tokens);

// max_r n_r / mean_r n_r, n_r the token copies that arrive on rank r (column sums of copies_RR): 1 is even. The experts
// of the fullest rank determine the time of all. The overload factor of Megatron-LM (pull request 4110). kNoValue if no
// copy arrived.
float rank_overload(const VolumeFrame& volume);

// Sums over one layer's dispatch, in token copies. Copies that stay on their rank count as received, but not as moved.
struct DispatchTotals {
  double moved = 0;                 // to other ranks
  double across_nodes = 0;          // to other nodes; de-duplicated: one for each other node that a token is sent to
  double fullest = 0;               // received by the fullest rank, including its own copies
  double received = 0;              // received by all ranks
  double max_over_mean = kNoValue;  // fullest R / received
};
DispatchTotals dispatch_totals(const VolumeFrame& volume, bool deduplicated);

// Saved by DeepEP: 1 - network bytes of DeepEP / network bytes of the standard all-to-all, for the dispatch of one
// routing. kNoValue if no copy crosses nodes.
double saved_by_deepep(const VolumeFrame& volume);

}  // namespace moescope
