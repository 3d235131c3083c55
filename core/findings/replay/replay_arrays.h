// The arrays of a run on a replay page (replay_page.h): load, all-to-all matrices and quantization statistics,
// quantized to bytes, each as base64 in JSON.
//
// Legend: L MoE layers, E routed experts, P points; for matrices and operands M measured steps, R ranks, O operands. If
// several steps share a slice, matrices and operands are those of its newest measured step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/files/text/base64.h"
#include "core/recording/history/history.h"

namespace moescope {

using ReplayJson = nlohmann::ordered_json;
using ReplayTick = std::function<void(double)>;  // called with the progress of a part, 0 to 1; may throw to cancel

// Base64 text of the bytes of numbers, in the byte order of memory (narrow_counts.h).
template <class Number>
std::string base64_of(const std::vector<Number>& numbers) {
  return base64({reinterpret_cast<const std::uint8_t*>(numbers.data()), numbers.size() * sizeof(Number)});
}

// Returns the code of a share from 0 to 1 on a logarithmic scale from 1e-5, with an error of at most 2.4 %. Code 0:
// share 0; 1: up to 1e-5; 254: share 1; 255: NaN.
std::uint8_t share_code(double share);

// Adds load_max and load to `run`.
void add_load(const History& history, StepRange range, int points, const ReplayTick& tick, ReplayJson& run);

// Returns the token copies of the standard and of the de-duplicated all-to-all; null if the run has none, or if one
// step does not fit in `bytes`.
//   steps [M], ranks, per_node, dim (0: not known)
//   copies_largest, distinct_largest  [M, L] float32, largest cell of the matrix; NaN: the layer has no matrix
//   copies, distinct                  [M, L, R, R] bytes: copies = byte / 255 of the largest cell
ReplayJson matrices_of(const History& history, StepRange range, int points, std::size_t bytes, const ReplayTick& tick);

// Returns the quantization statistics of each operand; null if the run has none, or if one step does not fit in
// `bytes`.
//   steps [M], formats, powers_of_two (formats whose scales are powers of two)
//   list    [O] of [layer, class, GEMM, operand, direction, first byte, number of bytes B]; its first scale is
//           2^(first byte - 127)
//   format  [M, O] index, 255: not measured
//   sqnr    [M, O] int16 in 0.01 dB, 32767: exact, -32768: none
//   underflow, clipped, nan_blocks, least_blocks  [M, O] share codes; least_blocks: blocks with the scale byte 0
//   blocks  [M, sum of B] share codes of the blocks with each scale
ReplayJson operands_of(const History& history, StepRange range, int points, std::size_t bytes, const ReplayTick& tick);

}  // namespace moescope
