// The progress of a training: a bar on a terminal, a line from time to time elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "core/frame/frame.h"

namespace moescope {

std::string duration_text(double seconds);  // "2:05", "1:00:03"
std::string bar_text(double share);         // "[#####...............]"

// Shows a count in a line that redraws itself on a terminal.
void show_count(const char* what, std::int64_t done, std::int64_t total);

class Progress {
 public:
  // `title`: printed before each line, such as "group 2 of 4". `later`: work after this training, in multiples of it.
  Progress(std::FILE* out, std::int64_t first_step, std::int64_t end_step, std::string title = {}, double later = 0);
  void show(const TelemetryFrame& frame);                // after each step
  void finish();                                         // leaves the bar on the terminal and starts a new line
  double tokens_per_s() const { return tokens_per_s_; }  // mean since the start, without the first step

 private:
  using Clock = std::chrono::steady_clock;
  std::string line(const TelemetryFrame& frame) const;

  std::FILE* out_;
  bool terminal_;
  std::int64_t first_, end_;
  std::string title_;
  double later_;
  Clock::time_point after_first_step_{}, shown_{};
  std::int64_t tokens_after_first_step_ = 0;
  double tokens_per_s_ = 0, seconds_per_step_ = 0;
  bool bar_open_ = false;
};

}  // namespace moescope
