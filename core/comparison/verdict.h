// Whether a run is worse than run A by more than chance: the signed mean of paired losses, and its interval.
//
// Runs in lock-step take the same batches, so that what a batch adds to a loss is common to them and gone from the
// difference of a step. The mean of these differences over the last half of the common steps is the gap. How far chance
// alone moves such a mean is seen from noise twins: runs with run A's settings, beside each other.
//
// Losses of neighbouring steps are correlated, and what the start of a run was lucky in lasts: the steps are cut into
// four batches, and the deviations r of the equal runs' batch means from the mean over these runs give
//   v   = sum r^2 / (4 (k - 1)), k equal runs,   rho = mean of r_j r_(j+1) / v, 0 to 1,
//   n   = 4 / (1 + 3 rho) batches that count as independent: 4 if nothing lasts, 1 if all of it does,
//   s^2 = v / n                                  variance of one run's mean, known with n (k - 1) degrees of freedom.
// Interval: gap +-t s sqrt(1 + 1/k), t Student's two-sided 95 % quantile; but no narrower than t_3 times the standard
// error of the gap's own four batch means, since a run may fluctuate more than run A does.
//
// Which loss is judged follows from the settings (deciding_loss), not from what the losses turn out to be: of 80 pairs
// of equal runs (nano in MXFP4, 300 steps, one twin) the narrower of the two intervals called 9 different, the
// validation loss alone 4 (tests/data/equal_runs.csv).
//
// Twins from run A's weights drift apart from it by chaos alone, in low precision a run does so faster. What a run's
// mean differs by through chance grows with its drift: where the twins' drift d_t (share of tokens that run A routes to
// other experts) is less than the run's own d, s is taken times (d / d_t)^2. Measured on the preset nano, 48 seeds of
// FP32 twins beside MXFP4 runs, of which two were compared with each other: s grows as the 1.3rd power of the drift
// (0.0025 at d 0.28, 0.012 at 0.90), and of 207 comparisons beside one twin with d_t between 0.1 and 0.64 this factor
// called 3 different by the training loss, none by the validation loss. With less drift than kLeastDrift chance is not
// known, and there is no verdict yet.
//
// Several candidates beside one run A are several chances to be called different. t is then the quantile of the largest
// of so many |t| that share one s (the studentized maximum modulus: Dunnett's test, on the safe side as it leaves out
// that the candidates also share run A): about 1 in 20 such comparisons calls any of its equal runs different.
//
// Simulated (equal runs, deviations white or correlated over 5 to 100 of 75 to 400 steps, alone or with an offset that
// lasts): without the second part of the rule 2 to 13, mostly 3 to 8, of 100 equal runs are called different, and with
// one twin the interval is 1.7 times as wide as if the variance were known, with two 1.3 times. The t test of whole
// means, which is exact, needs 4.4 and 1.8 times. Real equal runs: tests/bench verdicts. Batch means: Law, Simulation
// Modeling and Analysis, section 9.5.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "core/comparison/gap_track.h"

namespace moescope {

// Comparisons of fewer steps get no verdict.
inline constexpr std::int64_t kLeastSteps = 50;
// Nor of fewer than these where the validation loss decides, which is measured every so many steps (0: never): each of
// the four batches of the last half needs one.
constexpr std::int64_t least_steps(std::int64_t validation_every) {
  return validation_every > 0 ? std::max(kLeastSteps, 8 * validation_every) : kLeastSteps;
}
// A loss gap that matters, as a share of run A's loss, unless the user chooses another: the relative error of FP8
// against BF16 that DeepSeek-V3 (arXiv:2412.19437, section 3.3) calls within training randomness.
inline constexpr double kMatters = 0.0025;

// Of the twins: the least at which it was measured how much further chance moves a run that has drifted more.
inline constexpr float kLeastDrift = 0.1f;

// A run that is compared with run A, or a noise twin.
struct PairedRun {
  HistoryPtr run;
  // Starts from run A's weights, but for a unit in the last place. Such twins show chaos alone, others the luck of the
  // start as well; a run is judged by the twins of its own kind of start.
  bool same_start = true;
};

enum class Verdict {
  too_short,   // fewer than kLeastSteps steps in common
  lost,        // only one of the losses is NaN or infinite at the end
  identical,   // the losses are equal to the bit
  no_twin,     // what chance does is not known
  twins_near,  // nor here: the run has drifted from run A, its twins have not yet
  equal,       // the whole interval is smaller than what matters
  unclear,     // the interval holds 0 and gaps that matter
  worse,       // the whole interval is above 0
  better       // below 0
};

struct Conclusion {
  Verdict verdict = Verdict::too_short;
  Metric loss = Metric::ce_loss;  // that is judged
  StepRange steps;                // judged; lost: from there on
  float gap = kNoValue;           // nats/token: mean loss minus that of run A, and of the twins of its start
  float half = kNoValue;  // the interval is gap +-half; no_twin: by the run's own batches alone; twins_near: not known.
                          // Also the smallest gap that can be told from chance
  float matters = kNoValue;  // nats/token
  // What half would be with one more twin that fluctuates as those that are there; kNoValue: there is none, or the
  // run's own fluctuations set it.
  float half_with_another = kNoValue;
  int twins = 0;       // that it is judged by
  int candidates = 1;  // that the interval allows for
  // Share of the tokens routed elsewhere than by run A over these steps; kNoValue: not measured.
  float drift = kNoValue, drift_of_twins = kNoValue;
  bool lost_is_a = false;      // lost: the loss that is not finite is run A's
  bool drift_unknown = false;  // of the run or of twins that started as it did: the interval may be too narrow
  // Of the twins' drift, from the first half of the judged steps to the second; kNoValue: they have none yet.
  float growth = kNoValue;
  // More steps that a verdict takes. too_short: until there are losses enough; no_twin: until a twin of those given has
  // kLeastSteps beside the run; twins_near: until their drift is kLeastDrift at its present growth, or as many steps
  // again where they have none to extrapolate. 0: nothing that more steps give is lacking.
  std::int64_t lacking = 0;
  std::string text;  // one sentence that names the runs
};

// The same, with its gap to run A.
struct PairedTrack {
  GapTrack track;
  bool same_start = true;
};

struct Judging {
  double matters = kMatters;  // share of run A's loss
  int candidates = 1;  // runs beside run A that are no noise twins of it: each is a chance to be called different
  bool operator==(const Judging&) const = default;
};

// Twins that have not got to the judged steps do not count, nor does the run itself.
Conclusion conclude(const PairedTrack& run, std::span<const PairedTrack> twins, const Judging& judging = {});
// Of the loss that decides, or of `loss`. The validation loss is known at some steps only; every batch of steps needs
// one.
Conclusion conclude(const HistoryPtr& a, const PairedRun& run, std::span<const PairedRun> twins,
                    const Judging& judging = {}, std::optional<Metric> loss = {});

// The validation loss where it is measured during both runs, as their settings say at the start, or for the log of
// another program that it holds some; else the training loss. Also the training loss of a run that replays run A's
// routing: on the validation text it chooses itself.
Metric deciding_loss(const History& a, const History& run);
const char* loss_words(Metric loss);  // "validation loss", "training loss"

// t with P(|T| <= t) = 0.95 for Student's distribution of `degrees` >= 1 degrees of freedom, which need not be whole.
double student_95(double degrees);
// The same for `inside` in place of 0.95.
double student_quantile(double degrees, double inside);
// c with P(all of `count` |T| <= c) = 0.95, whose numerators are independent and whose denominator is one.
double largest_student_95(double degrees, int count);

}  // namespace moescope
