// Watches whether the load of one MoE layer oscillates, by 50 logged loads at a time.
//
// Deviations of the loads from their mean are anticorrelated at some lag up to 8, while the batch MaxVio is high, twice
// what chance gives and twice that of the loads together. Batches whose kinds of text alternate do that as well (-0.3
// to -0.47 at a lag of 1 in presets that are healthy), so the bias decides: its step has to be large against the score
// margin. It was 0.02 of the margin there, in runs that oscillate (rate 0.03 and 0.1) 0.3 to 2.7. And the margin must
// mean something: see GateWatch::says_nothing(). Where loads are logged on some steps only, their correlation shows
// little, and the step of the sign rule decides alone. Where the step is not known, the correlation has to be beyond
// what such batches have, and the finding does not say what causes it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/findings/load_episode.h"
#include "core/findings/recent_load.h"

namespace moescope {

inline constexpr int kLags = 8;
inline constexpr double kAnticorrelated = -0.25, kStronglyAnticorrelated = -0.55;
inline constexpr double kOscillatingMaxVio = 0.5, kTimesChance = 2;  // and this many times what chance gives
// Where the step of the bias is not known: batches that are this uneven, while together they are even to a fifth of
// that, need not be anticorrelated more than a healthy run's. Presets at a rate of 0.1 begin with 1.3 to 1.9.
inline constexpr double kFarOscillating = 1, kEvenTogether = 0.2, kFarAnticorrelated = -0.3;
inline constexpr double kLargeBiasStep = 0.25;

// Of GateWatch.
struct BiasStep {
  bool is_known = false;
  double of_margin = 0;  // mean |change of the bias in a step| over the score margin
  double margin = 0;
  bool of_sign_rule = true;  // as far as is known: quantiles move the bias by what a batch needs, however far that is
};

class OscillationWatch {
 public:
  // `load` has read the block. Returns the oscillation that is over with it.
  std::optional<LoadEpisode> block(const LoadBlock& block, const RecentLoad& load, const BiasStep& bias_step);

  void findings(const RecentLoad& load, std::vector<Finding>& out) const;
  // What was seen; adds to the title.
  static void describe(const LoadEpisode& oscillation, const StepAxis& axis, Finding& finding);

 private:
  struct Anticorrelation {
    int lag = 0;  // in loads, at which the correlation is lowest
    double correlation = 0;
  };
  // How it shows in 50 loads.
  struct Swing {
    Anticorrelation deepest;
    double max_vio = 0;           // mean of the batches'
    double together_max_vio = 0;  // of the loads together
    std::int64_t stride = 1;      // steps between two loads
    BiasStep bias_step;
  };
  void keep(const LoadBlock& block);
  Swing swing(const RecentLoad& load, const BiasStep& bias_step);
  bool oscillates(const RecentLoad& load, Swing& swing) const;
  Anticorrelation strongest_anticorrelation() const;
  std::optional<LoadEpisode> judge(const RecentLoad& load, const BiasStep& bias_step);

  // Loads that wait to be judged, 50 at most.
  std::vector<float> rows_;             // [loads, E]
  std::vector<float> max_vios_, mean_;  // [loads], [E]
  std::vector<std::int64_t> steps_;     // [loads]
  std::int64_t since_ = -1, last_shown_ = -1;
  int windows_ = 0;        // of 50 loads in which it showed, in the present episode
  int quiet_windows_ = 0;  // in a row
  Swing newest_;
};

}  // namespace moescope
