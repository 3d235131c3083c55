#include "core/findings/comparison/verdict.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/files/text/words.h"
#include "core/findings/comparison/same_settings.h"
#include "core/frame/frame.h"
#include "core/numerics/statistics.h"
#include "core/recording/marks.h"

namespace moescope {
namespace {

constexpr int kBatches = 4;
using BatchMeans = std::array<double, kBatches>;

double mean_over(const BatchMeans& means) {
  return std::accumulate(means.begin(), means.end(), 0.0) / kBatches;
}

// Returns the batch means of the gap; nullopt if a batch has no gap.
std::optional<BatchMeans> batch_means(const GapTrack& track, StepRange steps) {
  BatchMeans means{};
  for (int b = 0; b < kBatches; ++b) {
    const std::size_t from = track.place(slice_begin(steps, kBatches, b));
    const std::size_t to = track.place(slice_begin(steps, kBatches, b + 1));
    const PyramidBin batch = track.raw().slice(from, to);
    if (batch.finite == 0) return std::nullopt;
    means[b] = batch.sum / batch.finite;
  }
  return means;
}

// Effect of chance on the mean of one of the equal runs (docs/comparing-runs.md).
struct Chance {
  double deviation = 0;  // s
  double batches = 0;    // n
};

// Takes the batch means of the equal runs, which are run A and its twins, and the lower limit of rho.
Chance chance_of(const std::vector<BatchMeans>& equal, double least_lasting) {
  const double free = static_cast<double>(equal.size()) - 1;
  double squares = 0, neighbours = 0;
  BatchMeans centre{};
  for (const BatchMeans& run : equal)
    for (std::size_t b = 0; b < kBatches; ++b) centre[b] += run[b] / equal.size();
  for (const BatchMeans& run : equal) {
    for (std::size_t b = 0; b < kBatches; ++b) squares += (run[b] - centre[b]) * (run[b] - centre[b]);
    for (std::size_t b = 1; b < kBatches; ++b) neighbours += (run[b] - centre[b]) * (run[b - 1] - centre[b - 1]);
  }
  const double variance = squares / (kBatches * free);
  const double rho = variance > 0 ? std::clamp(neighbours / ((kBatches - 1) * free) / variance, least_lasting, 1.0) : 1;
  const double batches = kBatches / (1 + (kBatches - 1) * rho);
  return {std::sqrt(variance / batches), batches};
}

// Returns half of the interval from the batch means of the gap alone.
double own_half(const BatchMeans& gap) {
  const double mean = mean_over(gap);
  double squares = 0;
  for (const double run_gap : gap) squares += (run_gap - mean) * (run_gap - mean);
  static const double kQuantile = student_95(kBatches - 1);
  return kQuantile * std::sqrt(squares / (kBatches - 1) / kBatches);
}

// Returns the lower limit of rho for k equal runs. The luck of two runs is often alike, which looks as if nothing
// lasted.
double least_lasting(double equal_runs) {
  return equal_runs > 2 ? kMinLasting : kMinLastingOfTwo;
}

// Returns the variance of the gap, in units of the variance of one run's mean. Run A is one of the k runs that give
// this variance, so that its own luck widens the interval already (docs/comparing-runs.md). Other pairs have the full
// variance, and so have runs that start from other weights, because the run may share the luck of run A's start.
double variance_factor(double equal_runs, bool has_a) {
  return has_a ? 2 - 1 / equal_runs : 2;
}

// Returns the factor by which chance moves the run more than its twins, which have drifted less.
double wider_by_drift(const Conclusion& c) {
  if (!(c.drift > c.drift_of_twins)) return 1;  // also if a drift is not known
  return std::pow(c.drift / static_cast<double>(c.drift_of_twins), 2);
}

constexpr double kMinWidening = 1.2;

// True if the run's drift needs a factor outside the measured range, or if the run replays run A's routing, so that
// only the twins show how far chance has come.
bool twins_are_near(const Conclusion& c) {
  return c.drift_of_twins < kMinDrift && (c.replays || wider_by_drift(c) > kMinWidening);
}

StepRange common_steps(StepRange run, const GapTrack& twin) {
  return {std::max(run.first, twin.steps().first), std::min(run.last, twin.steps().last)};
}

// Returns how many steps the longest twin still needs to have kMinSteps steps beside the run; 0 if it needs none or
// there are no twins.
std::int64_t lacking_of_twins(StepRange run, const std::vector<const GapTrack*>& twins) {
  std::int64_t most_steps = 0;
  for (const GapTrack* twin : twins) most_steps = std::max(most_steps, twin->count(common_steps(run, *twin)));
  return twins.empty() ? 0 : std::max<std::int64_t>(0, kMinSteps - most_steps);
}

// Returns the last half of those of these steps that the run has in common with twins that have enough steps.
StepRange judged_steps(const GapTrack& run, StepRange steps, const std::vector<const GapTrack*>& twins) {
  std::int64_t last = -1;
  for (const GapTrack* twin : twins) {
    const StepRange both = common_steps(steps, *twin);
    if (twin->count(both) >= kMinSteps) last = std::max(last, both.last);
  }
  if (last >= 0) steps.last = last;
  return run.last_steps(std::max(kMinSteps, run.count(steps) / 2), steps.last);
}

Verdict verdict_of(const Conclusion& c) {
  if (c.twins == 0) return Verdict::no_twin;
  return is_missing(c.half_width) ? Verdict::twins_near : verdict_of_interval(c.gap, c.half_width, c.matters);
}

// Judges by independent gaps: their mean and Student's interval.
void judge_independent(std::span<const double> gaps, Conclusion& c) {
  const double n = static_cast<double>(gaps.size()), mean = std::accumulate(gaps.begin(), gaps.end(), 0.0) / n;
  double squares = 0;
  for (const double gap : gaps) squares += (gap - mean) * (gap - mean);
  c.gap = static_cast<float>(mean);
  c.half_width = static_cast<float>(largest_student_95(n - 1, c.candidates) * std::sqrt(squares / (n - 1) / n));
  c.verdict = verdict_of_interval(c.gap, c.half_width, c.matters);
}

// Judges two checkpoints by the gaps of their batches of text, each of which is a sample.
void judge_texts(const GapTrack& run, const Judging& judging, Conclusion& c) {
  const std::vector<std::int64_t> steps = run.a()->steps_in(c.steps);
  const std::vector<float> losses_a = run.a()->values_at(c.loss, kWholeRun, steps),
                           losses_b = run.b()->values_at(c.loss, kWholeRun, steps);
  std::vector<double> gaps;
  double loss = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!std::isfinite(losses_a[i]) || !std::isfinite(losses_b[i])) continue;
    gaps.push_back(losses_b[i] - static_cast<double>(losses_a[i]));
    loss += losses_a[i];
  }
  if (gaps.size() < 2) return;
  c.candidates = judging.candidates;
  c.matters = static_cast<float>(judging.matters * loss / static_cast<double>(gaps.size()));
  judge_independent(gaps, c);
  if (run.identical(c.steps.last)) c.verdict = Verdict::identical;
}

// Returns the mean drift over the steps at which flips were counted, and over the runs.
float drift_of(const std::vector<HistoryPtr>& runs, StepRange steps) {
  PyramidBin all;
  for (const HistoryPtr& run : runs) all.add(run->series(Metric::flip_rate, kWholeRun, steps, 1)[0]);
  return all.finite > 0 ? all.mean() : kNoValue;
}

// Returns the growth of the drift from the first half of the steps to the second; kNoValue if there is no drift yet.
float growth_of(const std::vector<HistoryPtr>& runs, StepRange steps) {
  constexpr float kMaxRatio = 100;
  const std::int64_t middle = slice_begin(steps, 2, 1);
  const float early = drift_of(runs, {steps.first, middle - 1}), late = drift_of(runs, {middle, steps.last});
  if (!(late > 0)) return kNoValue;
  return early > 0 ? std::min(late / early, kMaxRatio) : kMaxRatio;
}

// Returns the steps until the mean drift over the last half of the steps is kMinDrift. That mean is about the value
// in the middle of the half, at three quarters of all steps. On nano 84 of 100 such estimates were right to a factor of
// two.
std::int64_t steps_until_apart(const GapTrack& run, const Conclusion& c, float late_drift) {
  constexpr float kMinGrowth = 1.1f;
  const std::int64_t steps_taken = run.count({run.steps().first, c.steps.last});
  if (is_missing(c.growth)) return steps_taken;
  if (c.growth < kMinGrowth) return 0;
  const double judged = run.count(c.steps);
  const double lacks = std::max(0.0, std::log(static_cast<double>(kMinDrift / late_drift)));
  const double reached = steps_taken - 0.25 * judged + 0.5 * judged * lacks / std::log(static_cast<double>(c.growth));
  return std::clamp(static_cast<std::int64_t>(reached / 0.75) - steps_taken, std::int64_t{1}, 10 * steps_taken);
}

// Computes gap, half and related members of `c`; returns false if a batch has no losses.
bool measure(const GapTrack& run, bool same_start, const std::vector<const GapTrack*>& twins, Conclusion& c) {
  std::vector<BatchMeans> equal = {BatchMeans{}};  // first: run A, whose gap to itself is 0
  for (const GapTrack* twin : twins) {
    if (common_steps(c.steps, *twin) != c.steps) continue;
    if (const auto means = batch_means(*twin, c.steps)) equal.push_back(*means);
  }
  const auto gap = batch_means(run, c.steps);
  if (!gap) return false;
  const double k = equal.size();
  c.gap = static_cast<float>(mean_over(*gap));
  c.twins = to_int(equal.size()) - 1;
  if (c.twins == 0 || (same_start && twins_are_near(c))) return true;
  const double by_drift = same_start ? wider_by_drift(c) : 1;
  c.widened = by_drift >= kMinWidening;
  const HistoryPtr& run_a = twins.front()->a();
  const bool has_a = same_start && (run_a == run.a() || run_a == run.b());
  const auto half_of = [&](double runs) {
    const Chance chance = chance_of(equal, least_lasting(runs));
    return static_cast<float>(largest_student_95(chance.batches * (runs - 1), c.candidates) * chance.deviation *
                              by_drift * std::sqrt(variance_factor(runs, has_a)));
  };
  const auto own_half_width = static_cast<float>(own_half(*gap));
  const float equal_half_width = half_of(k);
  c.half_width = std::max(own_half_width, equal_half_width);
  if (equal_half_width > own_half_width) c.half_with_another = std::max(own_half_width, half_of(k + 1));
  return true;
}

std::vector<const GapTrack*> twins_for(const PairedTrack& run, std::span<const PairedTrack> twins, bool same_start) {
  std::vector<const GapTrack*> fitting;
  if (!run.has_twins) return fitting;
  for (const PairedTrack& twin : twins)
    if (twin.track.b() != run.track.b() && twin.same_start == same_start) fitting.push_back(&twin.track);
  return fitting;
}

// Returns the steps from one validation to the next; 0 if validation is off or the run is the log of another program.
std::int64_t validation_every(const History& history) {
  return history.settings_at_start()->value(&TelemetryConfig::validation_every).value_or(0);
}

// Returns the steps until each batch of the judged steps has a loss, if losses follow each other at the interval of the
// settings or, where the settings have none, at the mean interval of the present losses.
std::int64_t lacking_losses(const GapTrack& run, std::int64_t steps_taken) {
  const std::int64_t set = validation_every(*run.a());
  if (set > 0) return std::max<std::int64_t>(1, least_steps(set) - steps_taken);
  const PyramidBin all = run.raw().slice(0, steps_taken);
  if (all.finite == 0) return 0;
  const std::int64_t interval = (steps_taken + all.finite - 1) / all.finite;
  return std::max<std::int64_t>(1, least_steps(interval) - steps_taken);
}

bool holds(const HistoryPtr& run, bool RouterConfig::*setting) {
  return run->settings_at_start()->holds(setting);
}

// Ends the judged steps before the runs train on different text. A validation loss may still be of one text.
void keep_same_text(const GapTrack& run, Conclusion& c) {
  const std::int64_t first = c.loss == Metric::ce_loss ? other_text_from(*run.a(), *run.b()) : INT64_MAX;
  if (first > c.steps.last) return;
  c.other_text_from = first;
  c.steps.last = first - 1;
  c.common_steps = run.count(c.steps);
}

// Computes the mean gap over the last half of too few steps of the same text, of which there will be no more.
void measure_few(const GapTrack& run, const Judging& judging, Conclusion& c) {
  c.steps = run.last_steps((run.count(c.steps) + 1) / 2, c.steps.last);
  const PyramidBin gaps = run.raw().slice(run.place(c.steps.first), run.place(c.steps.last + 1));
  if (gaps.finite == 0) return;
  c.gap = gaps.mean();
  c.matters = static_cast<float>(judging.matters) * run.a()->series(c.loss, kWholeRun, c.steps, 1)[0].mean();
}

// Judges the run over its steps up to c.steps.last.
void judge(const PairedTrack& run, std::span<const PairedTrack> twins, const Judging& judging, Conclusion& c) {
  bool same_start = run.same_start;
  auto fitting = twins_for(run, twins, same_start);
  // Twins of another start differ by more than chaos, but are better than no twins.
  if (fitting.empty() && same_start) fitting = twins_for(run, twins, same_start = false);
  const std::int64_t twins_lack = lacking_of_twins(c.steps, fitting);
  c.steps = judged_steps(run.track, c.steps, fitting);
  const HistoryPtr& a = run.track.a();
  std::vector<HistoryPtr> twin_runs;
  for (const GapTrack* twin : fitting) twin_runs.push_back(twin->b());
  if (same_start) {
    // With forced balance, the routing of equal runs is the same anyway.
    c.replays = !holds(a, &RouterConfig::force_balance) &&
                (holds(a, &RouterConfig::replay) || holds(run.track.b(), &RouterConfig::replay));
    // The drift is that from run A, which has none. Of two other runs, the larger one counts.
    if (!c.replays) c.drift = std::fmax(drift_of({a}, c.steps), drift_of({run.track.b()}, c.steps));
    c.drift_of_twins = drift_of(twin_runs, c.steps);
    c.drift_unknown = !fitting.empty() && (is_missing(c.drift) || is_missing(c.drift_of_twins));
    c.growth = growth_of(twin_runs, c.steps);
  }
  c.forced_balance = holds(a, &RouterConfig::force_balance) && holds(run.track.b(), &RouterConfig::force_balance);
  c.candidates = judging.candidates;
  if (!measure(run.track, same_start, fitting, c)) {
    c.missing_steps = lacking_losses(run.track, run.track.count({run.track.steps().first, c.steps.last}));
    return;
  }
  c.matters = static_cast<float>(judging.matters) * a->series(c.loss, kWholeRun, c.steps, 1)[0].mean();
  c.verdict = verdict_of(c);
  if (c.verdict == Verdict::no_twin) c.missing_steps = twins_lack;
  if (c.verdict == Verdict::twins_near)
    c.missing_steps = steps_until_apart(run.track, c, drift_of(twin_runs, {slice_begin(c.steps, 2, 1), c.steps.last}));
}

// Notes since when the verdict holds unless it is also that of the intervals that end in the last kHeldShare of the
// steps; takes it back if the runs go on. The intervals are looked at after each multiple of a power of two, so that
// one more step leaves most of them as they are.
void hold(const PairedTrack& run, std::span<const PairedTrack> twins, const Judging& judging, Conclusion& c) {
  constexpr std::int64_t kMinLooks = 16;
  const StepRange all{run.track.steps().first, c.steps.last};
  const auto held = static_cast<std::int64_t>(kHeldShare * static_cast<double>(run.track.count(all)));
  const std::int64_t first = run.track.last_steps(held, all.last).first;
  const auto stride = static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(1, (all.last - first) / kMinLooks))));
  for (std::int64_t last = (all.last - 1) / stride * stride; last >= first; last -= stride) {
    Conclusion earlier;
    earlier.loss = c.loss;
    earlier.steps = {all.first, last};
    if (run.track.count(earlier.steps) < kMinSteps) return;
    judge(run, twins, judging, earlier);
    if (is_missing(earlier.half_width)) return;
    if (earlier.verdict == c.verdict) continue;
    c.held_from = std::min(last + stride, all.last);
    const double until = static_cast<double>(run.track.count({all.first, c.held_from})) / (1 - kHeldShare);
    c.missing_steps = std::max<std::int64_t>(1, std::llround(until) - run.track.count(all));
    if (judging.goes_on && c.other_text_from < 0) c.held_back = std::exchange(c.verdict, Verdict::unclear);
    return;
  }
}

// True if the run measures its validation loss from the start and chooses experts there as in training. It must then
// have such losses as soon as it has steps, because a text without a held-out part gives none. The log of another
// program must contain such losses.
bool validates(const History& history) {
  const bool has_settings = !history.info().config_toml.empty();
  if (has_settings && (validation_every(history) <= 0 || history.settings_at_start()->holds(&RouterConfig::replay)))
    return false;
  const StepRange steps = history.steps();
  if (steps.empty()) return has_settings;
  const PyramidBin all = history.series(Metric::val_loss, kWholeRun, steps, 1)[0];
  return all.finite + all.non_finite > 0;
}

}  // namespace

Verdict verdict_of_interval(double gap, double half_width, double matters) {
  if (gap - half_width > matters) return Verdict::worse;
  if (gap + half_width < -matters) return Verdict::better;
  return std::fabs(gap) + half_width < matters ? Verdict::equal : Verdict::unclear;
}

Conclusion over_seeds(std::span<const Conclusion> by_seed) {
  Conclusion c = by_seed.back();
  std::vector<double> gaps;
  for (const Conclusion& conclusion : by_seed) {
    if (is_missing(conclusion.gap)) return conclusion;  // such as a loss that is NaN
    gaps.push_back(conclusion.gap);
  }
  c.held_from = c.missing_steps = 0;
  c.may_change = false;
  c.held_back = Verdict::unclear;
  judge_independent(gaps, c);
  return c;
}

// The interval narrows with the root of the number of seeds, and with the quantile of Student's t.
double seeds_to_settle(const Conclusion& over_seeds, int known) {
  constexpr int kIterations = 4;
  constexpr double kManySeeds = 100;
  const double room = std::fabs(std::fabs(over_seeds.gap) - over_seeds.matters),
               deviation = over_seeds.half_width / largest_student_95(known - 1, over_seeds.candidates);  // of the mean
  double seeds = known;
  for (int i = 0; i < kIterations; ++i) {
    const double half_width = largest_student_95(seeds - 1, over_seeds.candidates) * deviation;
    seeds = std::clamp(std::ceil(known * half_width * half_width / (room * room)), known + 1.0, kManySeeds);
  }
  return seeds;
}

std::string seeds_text(std::span<const Conclusion> by_seed) {
  std::string text = fmt::format("{}{}:", kEarlierSeeds, loss_words(by_seed.front().loss));
  for (const Conclusion& conclusion : by_seed) text += fmt::format(" {}", conclusion.gap);
  return text;
}

std::vector<Conclusion> recorded_seeds(const History& run) {
  std::vector<Conclusion> by_seed;
  for (const Marker& marker : run.markers()) {
    if (!marker.text.starts_with(kEarlierSeeds)) continue;
    std::string_view gaps = std::string_view(marker.text).substr(std::string_view(kEarlierSeeds).size());
    Conclusion c;
    c.loss = take_until(gaps, ':') == loss_words(Metric::val_loss) ? Metric::val_loss : Metric::ce_loss;
    by_seed.clear();
    for (gaps = trimmed(gaps); !gaps.empty(); by_seed.push_back(c))
      if (!read_number(take_until(gaps, ' '), c.gap) || !std::isfinite(c.gap)) return {};
  }
  return by_seed;
}

bool is_before_its_end(const History& run) {
  return run.steps().last + 1 < run.settings_at_start()->value(&OptimizerConfig::total_steps).value_or(0);
}

bool on_the_same_texts(const History& a, const History& b) {
  if (run_origin(a.info()) != RunOrigin::checkpoint || run_origin(b.info()) != RunOrigin::checkpoint) return false;
  LogSettings settings_a = a.settings_at_start()->log(), settings_b = b.settings_at_start()->log();
  // score_func describes the model, all other settings describe the texts.
  for (LogSettings* settings : {&settings_a, &settings_b}) settings->erase("score_func");
  return settings_a == settings_b && a.info().domains == b.info().domains;
}

PairedTrack paired_track(const HistoryPtr& a, const PairedRun& run, Metric loss) {
  return {GapTrack(run.baseline ? run.baseline : a, run.run, loss, run.by_tokens), run.same_start, run.has_twins};
}

Metric deciding_loss(const History& a, const History& run) {
  return validates(a) && validates(run) ? Metric::val_loss : Metric::ce_loss;
}

const char* loss_words(Metric loss) {
  return loss == Metric::val_loss ? "validation loss" : "training loss";
}

Conclusion conclude(const PairedTrack& paired, std::span<const PairedTrack> twins, const Judging& shared_judging) {
  const GapTrack& run = paired.track;
  Judging judging = shared_judging;
  judging.goes_on |= is_before_its_end(*run.a());
  Conclusion c;
  c.loss = run.metric();
  c.steps = run.steps();
  if (judging.last_step < c.steps.last) {
    judging.goes_on = true;
    c.steps.last = judging.last_step;
  }
  c.name = run.b()->info().name;
  c.name_of_a = run.a()->info().name;
  c.common_steps = run.count(c.steps);
  if (const auto lost = run.lost(); lost && *lost <= c.steps.last) {
    c.verdict = Verdict::lost;
    c.steps.first = *lost;
    c.lost_is_a = !std::isfinite(run.a()->value_at(run.metric(), kWholeRun, *lost));
  } else if (on_the_same_texts(*run.a(), *run.b())) {
    c.is_on_texts = true;
    judge_texts(run, judging, c);
  } else if (c.common_steps >= kMinSteps && run.identical(c.steps.last)) {
    c.verdict = Verdict::identical;
    c.gap = c.half_width = 0;
  } else if (keep_same_text(run, c); run.count(c.steps) >= kMinSteps) {
    judge(paired, twins, judging, c);
    const auto is_decided = [&] { return c.verdict >= Verdict::equal && c.verdict != Verdict::unclear; };
    if (is_decided()) hold(paired, twins, judging, c);
    c.may_change = is_decided() && judging.goes_on && c.other_text_from < 0;
  } else {
    if (c.other_text_from >= 0) measure_few(run, judging, c);
    c.missing_steps = kMinSteps - run.count(c.steps);
  }
  if (c.other_text_from >= 0) c.missing_steps = 0;
  return c;
}

Conclusion conclude(const HistoryPtr& a, const PairedRun& run, std::span<const PairedRun> twins, const Judging& judging,
                    std::optional<Metric> loss) {
  const HistoryPtr& baseline = run.baseline ? run.baseline : a;
  Metric judged = loss.value_or(deciding_loss(*baseline, *run.run));
  const auto track_of = [&](const PairedRun& other) {
    PairedTrack paired = paired_track(a, other, judged);
    paired.track.update();
    return paired;
  };
  // The training loss of a diverged run is the first to be NaN or infinite.
  if (!loss && judged != Metric::ce_loss) {
    GapTrack training(baseline, run.run, Metric::ce_loss, run.by_tokens);
    training.update();
    if (training.lost()) judged = Metric::ce_loss;
  }
  std::vector<PairedTrack> tracks;
  for (const PairedRun& twin : twins) tracks.push_back(track_of(twin));
  return conclude(track_of(run), tracks, judging);
}

}  // namespace moescope
