// A recording as one HTML file that plays it in a browser, without a network: assets/replay/ with the runs' figures
// between the page and its program, as JSON in which arrays are base64.
//
// A run has P points, equal slices of its steps: one for every step while the page stays below its size, else of
// several, whose mean is written. Legend: L MoE layers, E routed experts.
//   edges     [P + 1] steps; point p is of the steps [edges[p], edges[p + 1])
//   loss      [P] little-endian float32, nats per byte; val_loss the same; NaN: there is none
//   max_vio   [L, P] float32, of the batch; max_vio_window the same
//   load_max  [L, P] float32, the largest utilisation of the row; NaN: the row has no load
//   load      [L, P, E] bytes: utilisation = byte / 255 of the row's largest, so off by at most 1/510 of that
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/telemetry/history/history.h"

namespace moescope {

inline constexpr std::size_t kReplayLoadBytes = std::size_t{12} << 20;  // of `load`, of all runs together
inline constexpr int kReplayPoints = 4000;                              // of a run

// Throws std::runtime_error with the run's name if a run has no step.
std::string replay_page(std::span<const std::shared_ptr<History>> histories, std::size_t load_bytes = kReplayLoadBytes);

}  // namespace moescope
