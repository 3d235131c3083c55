// All-to-all volumes counted from a real routing.
//
// Legend: T tokens, K top_k, E experts, R ranks, N nodes. Source rank of token t is t * R / T (contiguous shards),
// expert e lives on rank e / (E / R) (contiguous placement); nodes are `ranks_per_node` consecutive ranks, the last one
// may have fewer.
// Standard all-to-all: one copy per chosen expert. DeepEP (docs of V1, "normal" kernels): one copy per destination
// node over the network, forwarded inside the node, copies for one rank merged.
#pragma once

#include <cstdint>
#include <span>

#include "core/telemetry/frame.h"

namespace moescope {

// topk_TK: chosen expert of each slot, token-major, each in [0, E). E % R == 0 is required.
VolumeFrame count_volumes(std::span<const std::int32_t> topk_TK, int top_k, int n_experts, int ranks,
                          int ranks_per_node);

// Bytes of one token's row of `dim` values as it travels. At dim 7168: 14,336, 7,392 and 7,392.
constexpr std::int64_t bf16_bytes_per_token(std::int64_t dim) {
  return 2 * dim;
}
// DeepEP's FP8 dispatch: E4M3 with an FP32 scale per 128 values.
constexpr std::int64_t fp8_bytes_per_token(std::int64_t dim) {
  return dim + 4 * ((dim + 127) / 128);
}
// torchao's MXFP8 all-to-all: E4M3 with an E8M0 scale per 32 values.
constexpr std::int64_t mxfp8_bytes_per_token(std::int64_t dim) {
  return dim + (dim + 31) / 32;
}

}  // namespace moescope
