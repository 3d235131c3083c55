// Watches whether expert_bias makes the load of one MoE layer oscillate, window by window of 50 steps.
//
// Deviations of the load from its mean of 50 steps are anticorrelated at some lag up to 8 steps, while the batch MaxVio
// is high and twice that of the window, and a step of the bias is no longer small against the score margin. All three
// are required, because batches whose kinds of text alternate give -0.4 as well: there the step was 0.02 of the margin,
// in runs that oscillate (rate 0.03 and 0.1) 0.3 to 2.7. And the margin must mean something: see
// GateWatch::says_nothing().
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/telemetry/findings/load_episode.h"
#include "core/telemetry/findings/recent_load.h"

namespace moescope {

inline constexpr int kLags = 8;
inline constexpr double kAnticorrelated = -0.25;
inline constexpr double kOscillatingMaxVio = 0.5;
inline constexpr double kLargeBiasStep = 0.25;

// Of GateWatch.
struct BiasStep {
  double of_margin = 0;  // mean |change of the bias in a step| over the score margin; 0: the bias does not oscillate
  double margin = 0;
};

class OscillationWatch {
 public:
  // Once for each window that is complete. Returns the oscillation that is over with it.
  std::optional<LoadEpisode> window(const RecentLoad& load, const BiasStep& bias_step);

  void findings(const RecentLoad& load, std::vector<Finding>& out) const;
  // What was seen; adds to the title.
  static void describe(const LoadEpisode& oscillation, const StepAxis& axis, Finding& finding);

 private:
  // How it shows in a window.
  struct Swing {
    int lag = 0;  // steps, at which the correlation is lowest
    double correlation = 0;
    double max_vio = 0;         // mean of the batches'
    double window_max_vio = 0;  // of the window's steps together
    BiasStep bias_step;
  };

  std::int64_t since_ = -1;
  int windows_ = 0;        // in which it showed, in the present episode
  int quiet_windows_ = 0;  // in a row
  Swing newest_;
};

}  // namespace moescope
