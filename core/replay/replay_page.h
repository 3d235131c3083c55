// Recordings as one HTML file that plays them in a browser, without a network: assets/replay/ with the runs' figures
// between the page and its program, as JSON in which arrays are base64.
//
// A run has P points, equal slices of its steps: one for every step while the page stays below its size, else of
// several, whose mean is written. Legend: L MoE layers, E routed experts.
//   edges     [P + 1] steps; point p is of the steps [edges[p], edges[p + 1])
//   loss      [P] little-endian float32, nats per byte; val_loss the same; NaN: there is none
//   max_vio   [L, P] float32, of the batch; max_vio_window the same
//   load_max  [L, P] float32, the largest utilisation of the row; NaN: the row has no load
//   load      [L, P, E] bytes: utilisation = byte / 255 of the row's largest, so off by at most 1/510 of that
//   matrices, operands: replay_arrays.h
//   lacks     names of what the run has none of
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/history/history.h"

namespace moescope {

struct ReplayRun {
  std::shared_ptr<const History> history;
  bool same_start = true;                    // as the first run (verdict.h)
  std::shared_ptr<const History> twin = {};  // of a noise twin of the first run: the part by which others are judged
  std::string setup = {};  // of the first: a link that opens all of these runs in the program; empty: there is none
};

struct ReplayLimits {
  // Of arrays, of all runs together, before base64 makes them a third larger: 19 MB.
  std::size_t bytes = 14'000'000;
  int points = 4000;  // of a run
};

// `progress` is told 0 to 1 and may return false, which cancels; the page is empty then. Throws std::runtime_error with
// the run's name if a run has no step.
std::string replay_page(std::span<const ReplayRun> runs, const ReplayLimits& limits = {},
                        const std::function<bool(double)>& progress = {});

}  // namespace moescope
