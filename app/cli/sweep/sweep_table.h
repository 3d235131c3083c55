// The results of a sweep: columns on a terminal, a CSV, a page with a picture.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/training/engine/sweep.h"

namespace moescope {

struct SweepResult {
  std::string run;  // name of the run that was varied
  std::int64_t steps = 0;
  int seeds = 1;
  std::span<const SweepAxis> axes;
  std::span<const SweepPoint> points;
};

std::string sweep_report(const SweepResult& result);  // the table, and sentences that explain the figures
std::string sweep_csv(const SweepResult& result);     // RFC 4180; cells of figures that are not known are empty
// HTML that needs nothing else: the table, and each point's loss with its seeds and interval on one axis.
std::string sweep_page(const SweepResult& result);

// The sentences below the table, for terminal and page: what the figures are over, and what the intervals mean.
std::string sweep_notes(const SweepResult& result);

}  // namespace moescope
