// Losses of runs that differ by chance alone, whose chance is known.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/findings/comparison/verdict.h"
#include "core/recording/history/history.h"

namespace moescope {

inline std::shared_ptr<History> with_losses(const std::string& name, const std::vector<double>& losses) {
  RunInfo info;
  info.name = name;
  auto made = std::make_shared<History>(info);
  for (std::size_t step = 0; step < losses.size(); ++step) {
    auto frame = std::make_shared<TelemetryFrame>();
    frame->step = static_cast<std::int64_t>(step);
    frame->ce_loss = static_cast<float>(losses[step]);
    made->append(std::move(frame));
  }
  return made;
}

// How the losses of equal runs deviate from their common loss. White deviations of a step have the standard
// deviation 1.
struct Luck {
  const char* name;
  double memory = 0;   // steps over which deviations are correlated; 0: white
  double lasting = 0;  // standard deviation of a lasting offset, in units of that of a batch mean of white deviations
  bool walks = false;  // a random walk that ends with the standard deviation 1 in place of the above
};

inline constexpr Luck kLucks[] = {{.name = "white"},
                                  {.name = "correlated over 5 steps", .memory = 5},
                                  {.name = "correlated over 20 steps", .memory = 20},
                                  {.name = "correlated over 60 steps", .memory = 60},
                                  {.name = "correlated over 100 steps", .memory = 100},
                                  {.name = "correlated over 300 steps", .memory = 300},
                                  {.name = "random walk", .walks = true},
                                  {.name = "offset of 1/4", .lasting = 0.25},
                                  {.name = "offset of 1/2", .lasting = 0.5},
                                  {.name = "offset of 1", .lasting = 1},
                                  {.name = "offset of 2", .lasting = 2},
                                  {.name = "offset of 4", .lasting = 4},
                                  {.name = "offset of 10", .lasting = 10}};

// Returns the deviations of one run. A batch of a verdict is an eighth of the steps.
inline std::vector<double> deviations(const Luck& luck, std::size_t steps, std::mt19937& random) {
  std::normal_distribution<double> normal;
  const double n = static_cast<double>(steps), memory_share = luck.memory > 0 ? std::exp(-1 / luck.memory) : 0;
  const double offset = luck.lasting * normal(random) / std::sqrt(n / 8);
  std::vector<double> values(steps);
  double state = luck.walks ? 0 : normal(random);
  for (double& value : values) {
    state = luck.walks ? state + normal(random) / std::sqrt(n)
                       : memory_share * state + std::sqrt(1 - memory_share * memory_share) * normal(random);
    value = offset + state;
  }
  return values;
}

// Returns a run with a loss of 2 and such deviations times 0.01, plus `gap`.
inline std::shared_ptr<History> lucky_run(const Luck& luck, std::size_t steps, std::mt19937& random, double gap = 0) {
  std::vector<double> losses = deviations(luck, steps, random);
  for (double& loss : losses) loss = 2 + gap + 0.01 * loss;
  return with_losses("run", losses);
}

// True if the interval excludes 0. A verdict also depends on what matters.
inline bool says_different(const Conclusion& conclusion) {
  return std::fabs(conclusion.gap) > conclusion.half_width;
}

}  // namespace moescope
