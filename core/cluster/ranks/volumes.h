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
#include <string_view>
#include <vector>

#include "core/cluster/ranks/placement.h"
#include "core/frame/frame.h"
#include "core/numerics/names.h"

namespace moescope {

// topk_TK is the chosen expert of each slot, token-major, each in [0, E), or -1 if the copy is not sent. E % R == 0 is
// required.
VolumeFrame count_volumes(std::span<const std::int32_t> topk_TK, int top_k, int n_experts, int ranks,
                          int ranks_per_node);
// Counts with any placement. Tokens of an expert are sent to its replicas in turn.
VolumeFrame count_volumes(std::span<const std::int32_t> topk_TK, int top_k, const Placement& placement,
                          int ranks_per_node);

// The copies of a recorded step, summed over layers that have the same ranks.
struct SummedVolume {
  VolumeFrame volume;
  int layers = 0;  // that were counted
};
// `layer`: the only one to count; -1: all.
SummedVolume sum_of_layers(std::span<const RouterFrame> routers, int layer = -1);

// Returns the copies that each source rank sends to each expert, [R, E]. topk_TK as for count_volumes().
std::vector<std::uint32_t> count_by_expert(std::span<const std::int32_t> topk_TK, int top_k, int n_experts, int ranks);

enum class Payload { bf16, fp8, mxfp8 };
// Bytes of one token's row of `dim` values in an all-to-all. At dim 7168: 14,336, 7,392 and 7,392.
std::int64_t bytes_per_token(Payload payload, std::int64_t dim);
inline constexpr auto payload_name = names_of<Payload>("bf16", "fp8", "mxfp8");

enum class AllToAll { standard, deep_ep };
inline constexpr auto all_to_all_name = names_of<AllToAll>("standard", "deepep");

// Token copies by link, of one rank or in total. A DeepEP copy to another node crosses the network to the rank with the
// same local index there, which forwards it over NVLink to each other rank that needs it.
struct LinkCopies {
  std::uint64_t local = 0;  // copies that never leave the rank
  std::uint64_t nvlink_out = 0, nvlink_in = 0;
  std::uint64_t network_out = 0, network_in = 0;
};
// Copies of one dispatch by rank, [R]. For a combine, in and out are exchanged.
std::vector<LinkCopies> copies_by_link(const VolumeFrame& volume, AllToAll kind);
LinkCopies total(std::span<const LinkCopies> ranks);
// Token rows that arrive on each rank, [R]: the column sums of copies_RR or distinct_RR.
std::vector<std::uint64_t> received_tokens(const VolumeFrame& volume, AllToAll kind);

// An all-to-all operation of one MoE layer and one microbatch.
struct AllToAllOp {
  const char* name;
  Payload payload;
};
// Returns 4 operations, or 6 if full recompute repeats the forward pass. FP8 shrinks only the forward dispatch
// (DeepEP's FP8 dispatch). MXFP8 shrinks the forward dispatch and the combine's backward pass, which also sends rows to
// the experts (torchao, a2a_dispatch.py).
std::vector<AllToAllOp> all_to_all_ops(Payload payload, bool recompute);
// Returns the bytes of one copy of a token's row in all operations.
std::int64_t bytes_per_copy(std::span<const AllToAllOp> ops, std::int64_t dim);

// Computes, from the routing, the bytes that the all-to-alls of a training over several processes give to the
// transport.
//
// Legend: R ranks, D values per row.
// Bytes per row in each of a layer's four all-to-alls.
struct RowBytes {
  std::int64_t dispatch = 0, combine = 0, combine_gradient = 0, dispatch_gradient = 0;
};
// `payload` is a value of the setting precision.payload: fp32 (4 D in all four), bf16 (2 D), or mxfp8 (D + D / 32
// towards the experts, 2 D from them). Throws std::runtime_error that names the allowed values.
RowBytes wire_row_bytes(std::string_view payload, std::int64_t dim);

// Returns the bytes that one layer's four all-to-alls send from rank to rank, [R, R], without the diagonal. With
// `over_nodes` (see WireFrame) the copies of the forward dispatch are merged. The other three send a row for every
// chosen expert, because sums must be added in the same order for every placement.
std::vector<std::uint64_t> wire_bytes(const VolumeFrame& volume, bool over_nodes, const RowBytes& row);

}  // namespace moescope
