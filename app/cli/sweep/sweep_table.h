// The results of a sweep: columns on a terminal, a CSV.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/files/text/report.h"
#include "core/training/engine/sweep.h"

namespace moescope {

struct SweepResult {
  std::string run;  // name of the run that was varied
  std::int64_t steps = 0;
  int seeds = 1;
  std::span<const SweepAxis> axes;
  std::span<const SweepPoint> points;
};

// Adds the table, and sentences that explain the figures.
void add_sweep(Report& report, const SweepResult& result);
std::string sweep_csv(const SweepResult& result);  // RFC 4180; cells of unknown figures are empty

// Returns a JSON text with the training recipe (core/findings/comparison/training_recipe.h) of each point and the gap
// to the first point. `runs`: of the sweep.
std::string sweep_recipes(const SweepResult& result, std::span<const RunGroup> runs);

}  // namespace moescope
