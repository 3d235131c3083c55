// Writes recordings as one HTML file that plays them in a browser, without a network. The file holds assets/replay/ and
// the runs' figures as JSON, whose arrays are base64.
//
// A run has P points, equal slices of its steps: one for every step if the arrays fit in ReplayLimits; else each point
// is the mean of several steps. Legend: L MoE layers, E routed experts.
//   edges     [P + 1] steps; point p covers the steps [edges[p], edges[p + 1])
//   loss, val_loss            [P] little-endian float32, nats per token; NaN: no value
//   max_vio, max_vio_window   [L, P] float32, of the batch and of the window
//   load_max  [L, P] float32, the largest utilisation of an expert; NaN: the point has no load
//   load      [L, P, E] bytes: utilisation = load_max byte / 255, with an error of at most load_max / 510
//   matrices, operands: matrices_of(), operands_of()
//   lacks     names of the figures that the run does not have
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/files/text/text_escape.h"
#include "core/recording/history/history.h"

namespace moescope {

// The arrays of a run on a replay page: load, all-to-all matrices and quantization statistics,
// quantized to bytes, each as base64 in JSON.
//
// Legend: L MoE layers, E routed experts, P points; for matrices and operands M measured steps, R ranks, O operands. If
// several steps share a slice, matrices and operands are those of its newest measured step.

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

struct ReplayRun {
  std::shared_ptr<const History> history;
  bool same_start = true;  // same start as the first run (verdict.h)
  // Set for a noise twin of the first run: the part of its history by which the other runs are judged.
  std::shared_ptr<const History> twin = {};
  std::string setup = {};  // first run only: link that opens all these runs in the program; empty: none
};

struct ReplayLimits {
  // Limit of the arrays of all runs before base64, which makes them a third larger: 19 MB.
  std::size_t bytes = 14'000'000;
  int points = 4000;  // maximum for a run
};

// Returns the page. `progress` is called with 0 to 1 and returns false to cancel; the page is then empty. Throws
// std::runtime_error with the run's name if a run has no step.
std::string replay_page(std::span<const ReplayRun> runs, const ReplayLimits& limits = {},
                        const std::function<bool(double)>& progress = {});

}  // namespace moescope
