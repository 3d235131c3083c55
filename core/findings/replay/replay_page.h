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
//   matrices, operands: replay_arrays.h
//   lacks     names of the figures that the run does not have
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/recording/history/history.h"

namespace moescope {

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
