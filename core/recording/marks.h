// The markers of a run as time axes show them: each with a short name of what was done at its step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/history/history.h"

namespace moescope {

struct Mark {
  std::int64_t step = 0;
  std::string kind;   // of the marker
  std::string title;  // "kill 1:5", "pin 2:2 = 1", "bias_update_rate = 0.01"; of notes and events their text
  std::string text;   // the marker's, whole
};

// In the order in which they happened; without the settings of an imported run, which are not of a step.
std::vector<Mark> marks_of(const History& history);

}  // namespace moescope
