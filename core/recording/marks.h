// The markers of a run as time axes show them: each with a short title of the action at its step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/recording/history/history.h"

namespace moescope {

struct Mark {
  std::int64_t step = 0;
  std::string kind;   // kind of the marker
  std::string title;  // "kill 1:5", "pin 2:2 = 1", "bias_update_rate = 0.01"; text of notes and events
  std::string text;   // complete text of the marker
};

// Returns the marks in the order of their steps, without data of the run (is_data_marker()), which belong to no step.
std::vector<Mark> marks_of(const History& history);

}  // namespace moescope
