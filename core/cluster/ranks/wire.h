// Computes, from the routing, the bytes that the all-to-alls of a training over several processes give to the
// transport.
//
// Legend: R ranks, D values per row.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/frame/frame.h"

namespace moescope {

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
