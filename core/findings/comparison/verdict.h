// Decides whether a run is worse than run A by more than chance and by an amount that matters, from the mean of paired
// loss differences and its interval.
//
// The gap is the mean difference over the last half of the common steps; noise twins, below called twins (runs with run
// A's settings that train beside it), show how far chance alone moves such a mean. docs/comparing-runs.md, "How the
// interval is computed", has the formulas and their reasons, and says how their constants were tested.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/findings/comparison/gap_track.h"

namespace moescope {

// Lower limits of rho, the share of an equal run's deviation that lasts from batch to batch: beside several twins, and
// beside one.
inline constexpr double kMinLasting = 0.25, kMinLastingOfTwo = 0.35;
// Comparisons of fewer steps have no verdict.
inline constexpr std::int64_t kMinSteps = 50;
// Least number of steps for a verdict by the validation loss, which is measured every `validation_every` steps (0:
// never): each of the four batches of the last half needs one measurement.
constexpr std::int64_t least_steps(std::int64_t validation_every) {
  return validation_every > 0 ? std::max(kMinSteps, 8 * validation_every) : kMinSteps;
}
// Share of the steps up to the newest one over which a verdict must have held if the runs go on.
inline constexpr double kHeldShare = 0.2;
// Default of a loss gap that matters, as a share of run A's loss: DeepSeek-V3 (arXiv:2412.19437, section 3.3) calls
// this relative error of FP8 against BF16 within training randomness.
inline constexpr double kRelevantGap = 0.0025;

// Least drift of the twins at which the effect of more drift on chance was measured.
inline constexpr float kMinDrift = 0.1f;

// A run that is compared with run A, or a noise twin.
struct PairedRun {
  HistoryPtr run;
  // True if the run starts from run A's weights, up to one unit in the last place. Such twins show chaos alone; other
  // twins also show luck at the start. A run is judged by twins of its own kind of start.
  bool same_start = true;
  HistoryPtr baseline = {};  // the run that it is compared with; nullptr: run A
  bool has_twins = true;     // false: the noise twins of run A do not show what chance does to this pair
  bool by_tokens = true;     // false: paired step by step, also if both runs state their tokens
};

enum class Verdict {
  too_short,   // fewer than kMinSteps steps in common
  lost,        // only one of the losses is NaN or infinite at the end
  identical,   // the losses are equal to the bit
  no_twin,     // no noise twin: the effect of chance is not known
  twins_near,  // the effect of chance is not known: the twins have not drifted from run A; the run has, or replays
  equal,       // the whole interval is inside the band of gaps that are too small to matter
  unclear,     // the interval is across an edge of the band, or has not been on one side for long
  worse,       // the whole interval is above the band
  better       // the whole interval is below the band
};

struct Conclusion {
  Verdict verdict = Verdict::too_short;
  std::string name, name_of_a;    // of the run and of run A
  std::int64_t common_steps = 0;  // on the same text; of two checkpoints, batches of text
  bool is_on_texts = false;       // two checkpoints on the same texts
  Metric loss = Metric::ce_loss;  // loss that is judged
  StepRange steps;                // judged steps; lost: first to last step with one finite loss
  // Step from which on the runs train on different text, so that their training losses cannot be compared; the judged
  // steps end before it. -1: none.
  std::int64_t other_text_from = -1;
  float gap = kNoValue;  // nats/token: mean loss minus run A's
  // The interval is gap +-half; `half` is also the smallest gap that can be told from chance. With the verdicts no_twin
  // and twins_near it is not known.
  float half_width = kNoValue;
  float matters = kNoValue;  // nats/token
  // Value of `half` with one more twin that fluctuates like the others; kNoValue if there are no twins or if the run's
  // own fluctuations determine `half`.
  float half_with_another = kNoValue;
  int twins = 0;       // number of twins that the run is judged by
  int candidates = 1;  // number of candidates that the interval allows for
  // Share of tokens with other experts than in run A over these steps; kNoValue: not measured, or the run replays.
  float drift = kNoValue, drift_of_twins = kNoValue;
  bool replays = false;         // the run uses run A's routing, so that it has no drift that shows how far it has come
  bool forced_balance = false;  // both runs have it: what the run does to the routing is not part of the gap
  bool lost_is_a = false;       // lost: run A's loss is the one that is not finite
  bool drift_unknown = false;   // the drift of the run or of its twins is not known: the interval may be too narrow
  bool widened = false;         // the smaller drift of the twins widened the interval noticeably
  // unclear: verdict of the last interval that has not held for kHeldShare of the steps, and the step from which on it
  // has held; also noted beside a verdict at the end of the runs. 0: it has held.
  Verdict held_back = Verdict::unclear;
  std::int64_t held_from = 0;
  bool may_change = false;  // equal, worse or better, but the runs go on
  // Growth of the twins' drift from the first half of the judged steps to the second; kNoValue: no drift yet.
  float growth = kNoValue;
  // Further steps needed for a verdict. too_short: until there are enough losses; no_twin: until a twin has kMinSteps
  // steps beside the run; twins_near: until the twins' drift is kMinDrift at its present growth, or as many steps
  // again if there is no drift to extrapolate; unclear, or a verdict that has not held: until it has held long enough.
  // 0: more steps do not help.
  std::int64_t missing_steps = 0;
};

// A run or a noise twin with its gap to run A.
struct PairedTrack {
  GapTrack track;
  bool same_start = true, has_twins = true;  // as in PairedRun
};
// Returns the track of `run` against its baseline, which is `a` unless the run names another.
PairedTrack paired_track(const HistoryPtr& a, const PairedRun& run, Metric loss);

struct Judging {
  double matters = kRelevantGap;  // share of run A's loss
  int candidates = 1;             // number of runs beside run A and its noise twins
  // More steps will come, so that a verdict must have held for kHeldShare of the steps. Also if the settings of run A
  // plan more steps than it has taken.
  bool goes_on = false;
  // Steps of run A after this one are left out: the verdict is that of the training at this step, which goes on.
  std::int64_t last_step = kNoLastStep;
  bool operator==(const Judging&) const = default;
};

// Returns `worse`, `better`, `equal` or `unclear` for the interval gap +-half_width beside the band +-matters.
Verdict verdict_of_interval(double gap, double half_width, double matters);

// Judges a run by `twins`. Ignores twins that have not reached the judged steps, and the run itself if it is among
// them.
Conclusion conclude(const PairedTrack& run, std::span<const PairedTrack> twins, const Judging& judging = {});
// Judges by `loss`. Its default is deciding_loss(), or the training loss if one run's training loss is NaN or infinite
// at the end. The validation loss is known at some steps only; each of the four batches of steps needs one value.
Conclusion conclude(const HistoryPtr& a, const PairedRun& run, std::span<const PairedRun> twins,
                    const Judging& judging = {}, std::optional<Metric> loss = {});

// The conclusion over comparisons of the same runs with several seeds, two or more: the mean of their gaps, and
// Student's interval over the seeds.
Conclusion over_seeds(std::span<const Conclusion> by_seed);

// True if the settings plan more steps than the run has taken: paused, recorded up to here, or in training.
bool is_before_its_end(const History& run);
// True if both are checkpoints that were run on the same texts.
bool on_the_same_texts(const History& a, const History& b);

// Returns the validation loss if both runs have one, else the training loss. A run has one if its settings measure it
// from the start on; a log of another program, if it contains any. A run that replays run A's routing is judged by the
// training loss, because on the validation text it chooses its experts itself.
Metric deciding_loss(const History& a, const History& run);
const char* loss_words(Metric loss);  // "validation loss", "training loss"

// The loss gaps of a run with earlier seeds, which the recording of the next seed keeps as an event at step 0: its mean
// over the seeds is then there when the recording is opened.
// "earlier seeds, gaps of the training loss: 0.0085 0.0012".
std::string seeds_text(std::span<const Conclusion> by_seed);
// The conclusions of the run's event, which have the judged loss and the gap alone; empty: it has none.
std::vector<Conclusion> recorded_seeds(const History& run);

// About how many seeds would settle a verdict that is open over `known` ones.
double seeds_to_settle(const Conclusion& over_seeds, int known);

}  // namespace moescope
