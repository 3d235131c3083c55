// Watches the loss: whether it is NaN or infinite, also if the log shows this in another way, whether it has spikes,
// does not fall or has risen, and whether it is still logged. A value that is NaN, a gradient that stays NaN, or a loss
// that has diverged means that the training is lost.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "core/findings/findings.h"
#include "core/frame/newest.h"
#include "core/recording/history/step_axis.h"

namespace moescope {

// A spike is this many mean deviations (of about the last 50 steps) above the smoothed loss, and 15 % above it. Losses
// of small batches vary by several mean deviations if another kind of text begins; 12 were never seen without a cause.
inline constexpr double kSpikeDeviations = 12, kSpikeShare = 0.15;
// A loss does not fall if, within the first 1,000 steps of a run, its mean of 100 steps is less than 1 % below that of
// 200 steps before, and still more than 0.45 of the first loss. It falls again when it is 3 % lower. A model that has
// learned all it can is far below 0.45 of the first loss: the presets were at 0.28 and fell by 9 % in 200 steps. Only
// runs that are known from their start are checked.
inline constexpr double kFallingRatio = 0.99, kPlateauRatio = 0.45, kFallenAgainRatio = 0.97;
inline constexpr std::int64_t kFallSteps = 300, kJudgedFall = 1000;
inline constexpr double kFallenShare = 0.9;  // of the first loss
inline constexpr std::size_t kMeanOf = 10;   // blocks, 100 steps
// The loss has risen if the median of its newest 20 values is 25 % and three mean deviations above the lowest such
// median. It is reported if it has given back a share of its fall from the first value for a number of losses: a model
// that is worse than before its training has diverged, while another kind of text may raise the loss by less. Losses
// that begin near 0, as those of a policy gradient, are no cross-entropy and not judged.
struct LossRise {
  double given_back;
  std::int64_t losses;
};
inline constexpr std::int64_t kMedianOf = 20;  // losses
inline constexpr std::array<LossRise, 3> kLossRises = {{{1, 20}, {0.5, 100}, {0.05, 300}}};
inline constexpr double kMinLossRise = 0.25, kMinLossRiseDeviations = 3, kMinFirstLoss = 0.1;
// A gradient of another program that is NaN or infinite in 5 logged values in a row, over 20 steps, is lost. Fewer are
// ordinary: scaling of the loss in FP16 skips such steps and halves its scale, at the start of a run 10 times and more.
inline constexpr std::int64_t kLostGradients = 5, kLostGradientSteps = 20;
// The loss is no longer logged if this many steps with other values follow its newest value, and this many times as
// many as ever lay between two losses.
inline constexpr std::int64_t kUnloggedSteps = 20, kUnloggedTimes = 5;

// Grown: the median of the newest 20 norms is 1,000 times the lowest such median of the run. Warm-up, decay of the
// learning rate and growing weights change the norm of trainings that go well by a factor of 100 at most. At 10,000 the
// training is lost: clipping then scales every gradient to its limit, and single tokens decide its direction.
inline constexpr double kGrownGradient = 1000, kLostGradient = 10'000;
// Spikes: 5 of the newest 200 norms are above ten times the median of the 20 norms before. One of them is ordinary, and
// clipping limits its effect; loss spikes are reported on their own.
inline constexpr double kGradientSpike = 10;
inline constexpr std::size_t kNormsOfMedian = 20;
inline constexpr std::int64_t kGradientSpikes = 5, kSpikesAmong = 200;

// Values of successive steps, all of one length; kNoValue: not in the source.
struct LossValues {
  std::span<const float> ce, aux, z, grad_norm;
  std::span<const float> max_vio;  // shows that the step was logged even if it has no loss
};

class LossWatch {
 public:
  // trained_here: every gradient is applied, so that a NaN gradient means NaN weights.
  LossWatch(int run, bool trained_here, const StepAxis& axis) : axis_(&axis), run_(run), trained_here_(trained_here) {}
  void block(std::int64_t first, const LossValues& values);
  // Values of these steps are no longer kept individually; at least one was NaN or infinite.
  void non_finite_among(StepRange steps) { lost_.push_back({steps, LostBy::loss, false, false}); }
  void findings(std::vector<Finding>& out) const;

 private:
  struct Spike {
    StepRange steps;
    float highest = 0, before = 0, grad_norm = kNoValue;
  };
  // What shows that a loss is lost, clearest first. Zero: transformers' Trainer logs 0 for a loss that is NaN
  // (logging_nan_inf_filter), beside a gradient that is NaN.
  enum class LostBy { loss, zero, gradient };
  struct Lost {
    StepRange steps;
    LostBy by = LostBy::loss;
    bool weights = false;  // the weights are known to contain NaN afterwards
    bool exact = true;     // false: some of these steps, it is not known which
  };
  struct StepLoss {
    std::int64_t step;
    float loss;
  };
  struct LostGradients {  // successive logged gradients that are NaN or infinite
    StepRange steps;
    std::int64_t count = 0;
    bool are_many() const { return count >= kLostGradients && steps.size() >= kLostGradientSteps; }
  };
  struct Rise {
    std::int64_t step = -1;   // -1: the loss has not risen
    std::int64_t losses = 0;  // losses before the rise
    bool goes_on() const { return step >= 0; }
  };
  void judge_step(std::int64_t step, float loss, float grad_norm, bool other_lost);
  void count_logged(bool has_loss, bool has_others);
  void add(std::int64_t step, float loss, float grad_norm);
  void note_lost(std::int64_t step, LostBy by, bool with_weights);
  bool goes_on(const Lost& lost) const;
  bool has_no_gradients(const Lost& lost) const;
  void judge_fall();
  void judge_rise();
  bool has_risen_by(const LossRise& level, double share) const;
  std::int64_t rise_step() const;
  const LossRise* lasting_rise() const;
  double mean(std::size_t begin, std::size_t end) const;
  bool is_lost_now() const { return !lost_.empty() && goes_on(lost_.back()); }
  // Write title, brief, observation and meaning (loss_text.cpp).
  void describe(const Lost& lost, Finding& finding) const;
  void describe(const Spike& spike, Finding& finding) const;
  void describe_stuck(Finding& finding) const;
  void describe_risen(Finding& finding) const;
  void describe_unlogged(Finding& finding) const;

  const StepAxis* axis_;
  int run_;
  bool trained_here_;
  std::int64_t first_step_ = -1, last_step_ = -1, loss_count_ = 0;
  std::int64_t last_logged_ = -1;                  // newest step with any value
  std::int64_t unlogged_ = 0, most_unlogged_ = 0;  // steps with other values since the newest loss; most between two
  std::vector<Lost> lost_;
  LostGradients lost_gradients_;
  bool gradient_was_finite_ = false;
  double mean_ = 0, deviation_ = 0, weight_ = 0;
  Newest<Spike, 16> spikes_;
  std::deque<double> blocks_;  // means of whole blocks, newest last
  double start_ = 0;           // the first loss
  double plateau_ = 0;         // loss from which it does not fall
  std::int64_t flat_since_ = -1;
  std::deque<StepLoss> recent_;  // newest losses
  double median_ = 0;            // median of the newest 20
  double lowest_ = kNoValue;     // lowest such median, and the mean deviation of the losses at that time
  double lowest_deviation_ = 0;
  std::int64_t lowest_step_ = -1;
  std::array<Rise, kLossRises.size()> rises_;
};

// Watches the gradient norm for growth and for repeated spikes. A norm that is NaN is found by LossWatch.
class GradientWatch {
 public:
  GradientWatch(int run, const StepAxis& axis) : axis_(&axis), run_(run) {}
  void block(std::int64_t first, std::span<const float> norms);  // of successive steps; kNoValue: not in the source
  void findings(std::vector<Finding>& out) const;

 private:
  struct Norm {
    std::int64_t step;
    float norm;
  };
  struct Spike {
    std::int64_t step, number;  // `number` of norms before
  };
  void add(Norm newest);
  double grown() const { return lowest_ > 0 ? median_ / lowest_ : 1; }
  void describe_grown(Finding& finding) const;  // loss_text.cpp
  void describe_spikes(Finding& finding) const;

  const StepAxis* axis_;
  int run_;
  std::int64_t read_ = 0, last_step_ = -1;
  std::deque<Norm> recent_;         // newest norms
  std::deque<Spike> spikes_;        // among the newest kSpikesAmong norms
  double median_ = 0, lowest_ = 0;  // median of the newest 20, and the lowest such median; 0: none yet
  std::int64_t lowest_step_ = -1;
  std::int64_t low_until_ = -1;  // newest step at which the median was at most kLow times the lowest
  std::int64_t grows_since_ = -1;
};

// Adds the place of the first NaN or infinite value to a finding on such a loss, if an event names it.
void add_origin(const History& history, Finding& finding);

}  // namespace moescope
