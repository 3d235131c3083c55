// Watches the losses for NaN and infinity, for spikes, for a loss that does not fall, and for auxiliary losses that
// outweigh the cross-entropy.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "core/findings/findings.h"
#include "core/frame/newest.h"
#include "core/history/step_axis.h"

namespace moescope {

// A spike is this many mean deviations (of about the last 50 steps) above the smoothed loss, and 15 % above it. Losses
// of small batches vary by several mean deviations if another kind of text begins; 12 were never seen without a cause.
inline constexpr double kSpikeDeviations = 12, kSpikeShare = 0.15;
// A loss does not fall if, within the first 1,000 steps of a run, its mean of 100 steps is less than 1 % below that of
// 200 steps before, and still more than 0.45 of the first loss. It falls again when it is 3 % lower. A model that has
// learned all it can is far below 0.45 of the first loss: the presets were at 0.28 and fell by 9 % in 200 steps. Only
// runs that are known from their start are checked.
inline constexpr double kStillFalls = 0.99, kHardlyFallen = 0.45, kFallsAgain = 0.97;
inline constexpr std::int64_t kFallSteps = 300, kJudgedFall = 1000;
// The loss rose and stays up: for 200 steps its mean of 100 steps has been this many times the lowest such mean.
inline constexpr double kRose = 1.25;
inline constexpr std::int64_t kRoseSteps = 200;
// An auxiliary loss as large as the cross-entropy gives a note, three times as large a warning.
inline constexpr double kAuxNoted = 1, kAuxRules = 3;

// Values of successive steps, all of one length; kNoValue: not in the source.
struct LossValues {
  std::span<const float> ce, aux, z, grad_norm;
};

class LossWatch {
 public:
  // trained_here: every gradient is applied, so that a NaN gradient means NaN weights.
  LossWatch(int run, bool trained_here, const StepAxis& axis) : axis_(&axis), run_(run), trained_here_(trained_here) {}
  void block(std::int64_t first, const LossValues& values);
  // Values of these steps are no longer kept individually; at least one was NaN or infinite.
  void non_finite_among(StepRange steps);
  // `even_aux`: value of the auxiliary losses at an even load; nullopt: not known.
  void findings(std::vector<Finding>& out, std::optional<double> even_aux) const;

 private:
  struct Spike {
    StepRange steps;
    float highest = 0, before = 0, grad_norm = kNoValue;
  };
  struct Lost {
    StepRange steps;
    bool gradient = false;  // only the gradient norm was NaN or infinite, not the loss
    bool weights = false;   // the weights are known to contain NaN afterwards
    bool exact = true;      // false: some of these steps, it is not known which
  };
  struct Means {
    double ce, aux, z;
  };
  void add(std::int64_t step, float loss, float grad_norm);
  void note_lost(std::int64_t previous, std::int64_t step, bool of_gradient, bool with_weights);
  void judge_blocks(const LossValues& values);
  void judge_fall(double now);
  double mean(double Means::*member, std::size_t begin, std::size_t end) const;
  Finding make(FindingKind kind, StepRange steps, bool ongoing) const;
  void add_lost(std::vector<Finding>& out) const;
  void add_spikes(std::vector<Finding>& out) const;
  void add_stuck(std::vector<Finding>& out) const;
  void add_risen(std::vector<Finding>& out) const;
  void add_auxiliary(std::vector<Finding>& out, std::optional<double> even_aux) const;

  const StepAxis* axis_;
  int run_;
  bool trained_here_;
  std::int64_t first_step_ = -1, last_step_ = -1, seen_ = 0;
  std::vector<Lost> lost_;
  double mean_ = 0, deviation_ = 0, weight_ = 0;
  Newest<Spike, 16> spikes_;
  std::deque<Means> blocks_;  // whole blocks, newest last
  double start_ = 0;          // the first loss
  double plateau_ = 0;        // loss from which it does not fall
  double lowest_ = 0;         // lowest mean of 100 steps; 0: none yet
  std::int64_t lowest_step_ = -1;
  std::int64_t flat_since_ = -1, high_since_ = -1, aux_since_ = -1, z_since_ = -1;
};

// Adds the place of the first NaN or infinite value to a finding on such a loss, if an event of its first step names
// it.
void add_origin(const History& history, Finding& finding);

}  // namespace moescope
