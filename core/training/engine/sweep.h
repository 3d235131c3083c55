// A grid of trainings: every combination of the values of some keys, each with every seed. Unlike twins the runs are
// not in lock-step. Each trains as if it had been started alone, so that every key may be an axis. Each has its own
// recording, which can be reproduced.
//
// Runs of one seed read the same batches if no axis changes data or batches, and start from the same weights if no axis
// changes the shape of the model. Points of the grid are therefore compared by pairs of equal seed, because batches and
// initial weights have the same effect on both runs of a pair.
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
// Parses "router.top_k=1,2,4". Throws std::runtime_error with the reason.
SweepAxis parse_sweep_axis(const std::string& text);

inline constexpr std::size_t kMaxSweepRuns = 1000;

// Returns all runs, each as a separate group (run_groups.h). Runs of the first seed come first; within a seed the last
// axis changes fastest, so that run n belongs to point n modulo the number of points. The `seeds` seeds begin with that
// of `base`. Throws std::runtime_error for an invalid combination, too many runs, or an axis given twice.
std::vector<RunGroup> sweep_groups(const RunConfig& base, std::span<const SweepAxis> axes, int seeds,
                                   const std::string& recording);

// Mean over the seeds that have a value, and half of its interval by Student's t. `mean` is kNoValue if no seed has a
// value, `half_width` if fewer than two seeds have one.
struct SeedMean {
  double mean = kNoValue, half_width = kNoValue;
};
// Returns the mean of the values that are not NaN. `inside`: probability of the interval.
SeedMean mean_over_seeds(std::vector<double> values, double inside = 0.95);

struct SweepPoint {
  std::vector<std::string> values;  // one for each axis
  int ended = 0, lost = 0;          // numbers of runs; lost: ended with a NaN or infinite loss, left out of means
  // Means over each run's last kOutcomeSteps steps (comparison/outcomes.h); val_loss: the last value.
  SeedMean loss, val_loss, max_vio, tokens_per_s;
  SeedMean worst_sqnr, mean_sqnr;  // dB, of the operands whose formats differ (operand_sqnr.h)
  // nats/token: mean over pairs of equal seed of the loss minus the loss of the first point. The interval allows for
  // all points by Bonferroni: in about 1 of 20 sweeps without any difference, some interval does not contain 0.
  SeedMean gap;
  bool by_validation = false;  // `gap` is the gap of the validation loss
  std::vector<double> losses;  // by seed; kNoValue: no loss
};
std::vector<SweepPoint> sweep_points(std::span<const RunGroup> runs, std::span<const SweepAxis> axes,
                                     std::int64_t steps);

struct SweepResult {
  std::int64_t steps = 0;
  int seeds = 1;
  std::span<const SweepAxis> axes;
  std::span<const SweepPoint> points;
};
// Returns the file of the number formats of each point, as JSON: training_recipe() and the figures that speak for it.
std::string sweep_recipes(const SweepResult& result, std::span<const RunGroup> runs);

}  // namespace moescope
