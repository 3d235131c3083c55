// What a training adds up for its summary.
#pragma once

#include <deque>
#include <string>

#include "core/config/run_config.h"
#include "core/frame/frame.h"

namespace moescope {

// Figures of the last steps of run A.
struct LastSteps {
  std::deque<float> losses;  // losses of the last 20 steps, the oldest first
  float max_vio = kNoValue, max_vio_window = kNoValue;

  void add(const TelemetryFrame& frame);
  double mean_loss() const;
};

// Bytes that the all-to-alls sent, and the bytes that follow from the routing.
struct WireTotals {
  int ranks = 0;
  double sent = 0, counted = 0, ms = 0, steps = 0;

  void add(const TelemetryFrame& frame, const RunConfig& config);
  std::string text() const;  // empty if there was no all-to-all between ranks
};

}  // namespace moescope
