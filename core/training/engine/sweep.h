// A grid of trainings: every combination of the values of some keys, each with every seed. Unlike twins the runs are
// not in lock-step: each trains alone, as if it had been started by itself, so that every key may be an axis, and each
// has a recording of its own, which reproduces.
//
// Runs of one seed read the same batches, where the axes leave data and batches alone, and start from the same weights,
// where they leave the shape of the model alone. So points of the grid are compared by pairs of equal seed: what a
// batch or a start adds to both is gone from the difference.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/training/engine/run_groups.h"

namespace moescope {

struct SweepAxis {
  const ConfigField* field = nullptr;
  std::vector<ConfigValue> values;
};
// "router.top_k=1,2,4". Throws std::runtime_error with what is wrong.
SweepAxis parse_sweep_axis(const std::string& text);

inline constexpr std::size_t kMostSweepRuns = 1000;

// All runs, each a group of its own (run_groups.h), those of the first seed first; within a seed the last axis changes
// fastest, so that run n is of point n modulo the number of points. `seeds` from that of `base` on. Throws
// std::runtime_error: a combination that is not valid, too many runs, an axis given twice.
std::vector<RunGroup> sweep_groups(const RunConfig& base, std::span<const SweepAxis> axes, int seeds,
                                   const std::string& recording);

// A mean over the seeds that have a value, with the half width of its 95 % interval by Student's t; kNoValue: there is
// no value, or a single one.
struct SeedMean {
  double mean = kNoValue, half = kNoValue;
};
struct SweepPoint {
  std::vector<std::string> values;  // of each axis
  int ended = 0, lost = 0;          // runs; lost: by a loss that is NaN or infinite, which no mean has
  // Of each run over its last kOutcomeSteps steps (outcomes.h); the validation loss as last measured.
  SeedMean loss, val_loss, max_vio, tokens_per_s;
  SeedMean worst_sqnr, mean_sqnr;  // dB, of the operands that differ (operand_sqnr.h)
  // nats/token: loss minus that of the first point, by pairs of equal seed. Its interval allows for all points, by
  // Bonferroni: about 1 in 20 sweeps in which nothing differs has an interval without 0.
  SeedMean gap;
  bool by_validation = false;  // the gap's loss is the validation loss (deciding_loss)
  std::vector<double> losses;  // of each seed; kNoValue: it has none
};
std::vector<SweepPoint> sweep_points(std::span<const RunGroup> runs, std::span<const SweepAxis> axes,
                                     std::int64_t steps);

}  // namespace moescope
