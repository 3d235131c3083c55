#include "core/telemetry/findings/verdict.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <optional>

namespace moescope {
namespace {

constexpr int kBatches = 4;
using BatchMeans = std::array<double, kBatches>;

double mean_over(const BatchMeans& means) {
  double sum = 0;
  for (const double mean : means) sum += mean;
  return sum / kBatches;
}

bool covers(StepRange steps, StepRange part) {
  return steps.first <= part.first && steps.last >= part.last;
}

// Of the gap; nothing where a batch has none.
std::optional<BatchMeans> batch_means(const GapTrack& track, StepRange steps) {
  BatchMeans means{};
  for (int b = 0; b < kBatches; ++b) {
    const std::size_t from = track.place(slice_begin(steps, kBatches, b));
    const std::size_t to = track.place(slice_begin(steps, kBatches, b + 1));
    const PyramidBin batch = track.raw().slice(from, to);
    if (batch.finite == 0) return std::nullopt;
    means[static_cast<std::size_t>(b)] = batch.sum / batch.finite;
  }
  return means;
}

// Of equal runs: what chance does to the mean of one of them.
struct Chance {
  double deviation = 0;  // s
  double batches = 0;    // n
};

// `equal`: the equal runs' batch means.
Chance chance_of(const std::vector<BatchMeans>& equal) {
  const double free = static_cast<double>(equal.size()) - 1;
  double squares = 0, neighbours = 0;
  BatchMeans centre{};
  for (const BatchMeans& run : equal)
    for (std::size_t b = 0; b < kBatches; ++b) centre[b] += run[b] / static_cast<double>(equal.size());
  for (const BatchMeans& run : equal) {
    for (std::size_t b = 0; b < kBatches; ++b) squares += (run[b] - centre[b]) * (run[b] - centre[b]);
    for (std::size_t b = 1; b < kBatches; ++b) neighbours += (run[b] - centre[b]) * (run[b - 1] - centre[b - 1]);
  }
  const double variance = squares / (kBatches * free);
  const double rho = variance > 0 ? std::clamp(neighbours / ((kBatches - 1) * free) / variance, 0.0, 1.0) : 0;
  const double batches = kBatches / (1 + (kBatches - 1) * rho);
  return {std::sqrt(variance / batches), batches};
}

// By the batch means of the gap alone.
double own_half(const BatchMeans& gap) {
  const double mean = mean_over(gap);
  double squares = 0;
  for (const double each : gap) squares += (each - mean) * (each - mean);
  return student_95(kBatches - 1) * std::sqrt(squares / (kBatches - 1) / kBatches);
}

// The variance of a run's mean less that of what it is compared with, in variances of one run's mean. Beside twins of
// another start a run is compared with run A alone: what its start was lucky in is A's luck, too.
double variances(double equal_runs, bool same_start) {
  return same_start ? 1 + 1 / equal_runs : 2;
}

std::string two_digits(float value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", static_cast<double>(std::fabs(value)));
  return text;
}

// With as many digits after the point as two digits of `half` need: "+0.0028".
std::string signed_gap(float gap, float half) {
  const double size = std::fabs(std::isfinite(half) && half > 0 ? half : gap);
  const int digits = size > 0 ? std::clamp(1 - static_cast<int>(std::floor(std::log10(size))), 0, 9) : 4;
  char text[64];
  std::snprintf(text, sizeof text, "%+.*f", digits, static_cast<double>(gap));
  return text;
}

std::string steps_text(StepRange range) {
  return "steps " + std::to_string(range.first) + " to " + std::to_string(range.last);
}

// "12 of the 50 steps"
std::string steps_so_far(std::int64_t steps) {
  return std::to_string(steps) + " of the " + std::to_string(kLeastSteps) + " steps";
}

std::string against_what_matters(const Conclusion& c) {
  const float size = std::fabs(c.gap);
  const std::string matters = "the " + two_digits(c.matters) + " that matter";
  if (size + c.half < c.matters) return ", less than " + matters;
  if (size - c.half > c.matters) return ", more than " + matters;
  return ", " + matters + " not excluded";
}

// How much further chance moves a run than its twins, which have drifted less.
double wider_by_drift(const Conclusion& c) {
  constexpr float kLeast = 0.01f;               // of twins that are still beside run A
  if (!(c.drift > c.drift_of_twins)) return 1;  // also where one is not known
  return std::pow(static_cast<double>(c.drift) / static_cast<double>(std::max(c.drift_of_twins, kLeast)), 3);
}

// ", wider because ...", where that changed much.
std::string drift_text(const Conclusion& c) {
  if (c.twins == 0 || wider_by_drift(c) < 1.2) return {};
  const auto percent = [](float share) { return std::to_string(std::lround(share * 100)) + " %"; };
  return "; allowing for the noise twins' routing, which has drifted from run A's by " + percent(c.drift_of_twins) +
         " of the tokens only, this run's by " + percent(c.drift);
}

std::string in_words(const GapTrack& run, const Conclusion& c) {
  const std::string who = run.b()->info().name + " against " + run.a()->info().name + ": ";
  const std::string loss = run.metric() == Metric::val_loss ? "validation loss gap " : "loss gap ";
  const std::string gap =
      loss + signed_gap(c.gap, c.half) + " +-" + two_digits(c.half) + " nats/token over " + steps_text(c.steps);
  const std::string seen = "gaps below " + two_digits(c.half) + " cannot be told from chance here" + drift_text(c);
  switch (c.verdict) {
    case Verdict::too_short:
      if (c.lacking == 0) return who + "too few losses were measured to judge";
      return who + steps_so_far(kLeastSteps - c.lacking) + " that a verdict takes; " + std::to_string(c.lacking) +
             " more";
    case Verdict::lost:
      return who + "one loss is NaN or infinite from step " + std::to_string(c.steps.first) + " on";
    case Verdict::identical:
      return who + "the same losses to the bit over " + steps_text(c.steps);
    case Verdict::no_twin:
      if (c.lacking > 0)
        return who + gap + "; its noise twin has taken " + steps_so_far(kLeastSteps - c.lacking) +
               " that a verdict takes; " + std::to_string(c.lacking) + " more";
      return who + gap + "; without a noise twin it is not known whether that is more than chance";
    case Verdict::equal:
      return who + "good enough: " + gap + ", less than the " + two_digits(c.matters) + " that matter";
    case Verdict::unclear:
      return who + "not told apart: " + gap + "; " + seen + ", and " + two_digits(c.matters) + " matter";
    case Verdict::worse:
      return who + "worse: " + gap + against_what_matters(c) + "; " + seen;
    case Verdict::better:
      return who + "better: " + gap + "; " + seen;
  }
  return {};
}

StepRange common_steps(StepRange run, const GapTrack& twin) {
  return {std::max(run.first, twin.steps().first), std::min(run.last, twin.steps().last)};
}

// What the twin that is nearest to it lacks of kLeastSteps beside the run; 0: there is none, or one has them.
std::int64_t lacking_of_twins(StepRange run, const std::vector<const GapTrack*>& twins) {
  std::int64_t most = 0;
  for (const GapTrack* twin : twins) most = std::max(most, twin->count(common_steps(run, *twin)));
  return twins.empty() ? 0 : std::max<std::int64_t>(0, kLeastSteps - most);
}

// The last half of the steps that the run and the twins took, those that are there for long enough.
StepRange judged_steps(const GapTrack& run, const std::vector<const GapTrack*>& twins) {
  std::int64_t last = -1;
  for (const GapTrack* twin : twins) {
    const StepRange both = common_steps(run.steps(), *twin);
    if (twin->count(both) >= kLeastSteps) last = std::max(last, both.last);
  }
  StepRange steps = run.steps();
  if (last >= 0) steps.last = last;
  return run.last_steps(std::max(kLeastSteps, run.count(steps) / 2), steps.last);
}

Verdict verdict_of(const Conclusion& c) {
  if (c.twins == 0) return Verdict::no_twin;
  if (c.gap - c.half > 0) return Verdict::worse;
  if (c.gap + c.half < 0) return Verdict::better;
  return std::fabs(c.gap) + c.half < c.matters ? Verdict::equal : Verdict::unclear;
}

// Mean over the steps at which flips were counted, and over the runs.
float drift_of(std::span<const GapTrack* const> runs, StepRange steps) {
  double sum = 0;
  int known = 0;
  for (const GapTrack* run : runs)
    for (const float share : run->b()->values_in(Metric::flip_rate, kWholeRun, steps))
      if (std::isfinite(share)) sum += static_cast<double>(share), ++known;
  return known ? static_cast<float>(sum / known) : kNoValue;
}

// Fills in gap, half and what follows from them; false: a batch without losses.
bool measure(const GapTrack& run, bool same_start, const std::vector<const GapTrack*>& twins, Conclusion& c) {
  std::vector<BatchMeans> equal = {BatchMeans{}};  // run A's, whose gap to itself is 0
  for (const GapTrack* twin : twins) {
    if (!covers(twin->steps(), c.steps)) continue;
    if (const auto means = batch_means(*twin, c.steps)) equal.push_back(*means);
  }
  auto gap = batch_means(run, c.steps);
  if (!gap) return false;
  const double k = static_cast<double>(equal.size());
  if (same_start)
    for (const BatchMeans& each : equal)
      for (std::size_t b = 0; b < kBatches; ++b) (*gap)[b] -= each[b] / k;
  c.gap = static_cast<float>(mean_over(*gap));
  c.half = static_cast<float>(own_half(*gap));
  c.twins = static_cast<int>(equal.size()) - 1;
  if (c.twins == 0) return true;
  const Chance chance = chance_of(equal);
  const double deviation = chance.deviation * (same_start ? wider_by_drift(c) : 1);
  const auto half_of = [&](double runs) {
    return static_cast<float>(student_95(chance.batches * (runs - 1)) * deviation *
                              std::sqrt(variances(runs, same_start)));
  };
  const float own = c.half;
  c.half = std::max(own, half_of(k));
  if (half_of(k) > own) c.half_with_another = std::max(own, half_of(k + 1));
  return true;
}

std::vector<const GapTrack*> twins_for(const PairedTrack& run, std::span<const PairedTrack> twins, bool same_start) {
  std::vector<const GapTrack*> fitting;
  for (const PairedTrack& twin : twins)
    if (twin.track.b() != run.track.b() && twin.same_start == same_start) fitting.push_back(&twin.track);
  return fitting;
}

void judge(const PairedTrack& run, std::span<const PairedTrack> twins, double matters, Conclusion& c) {
  bool same_start = run.same_start;
  auto fitting = twins_for(run, twins, same_start);
  // Twins of another start differ by more than chaos: better than none.
  if (fitting.empty() && same_start) fitting = twins_for(run, twins, same_start = false);
  const std::int64_t twins_lack = lacking_of_twins(c.steps, fitting);
  c.steps = judged_steps(run.track, fitting);
  const GapTrack* const itself[] = {&run.track};
  if (same_start) c.drift = drift_of(itself, c.steps), c.drift_of_twins = drift_of(fitting, c.steps);
  if (!measure(run.track, same_start, fitting, c)) return;
  const HistoryPtr& a = run.track.a();
  c.matters = static_cast<float>(matters) * a->series(run.track.metric(), kWholeRun, c.steps, 1)[0].mean();
  c.verdict = verdict_of(c);
  if (c.verdict == Verdict::no_twin) c.lacking = twins_lack;
}

}  // namespace

// With t = sqrt(n) tan(x) the density becomes cos(x)^(n - 1), which is added up by the midpoint rule.
double student_95(double degrees) {
  constexpr int kParts = 1000;
  const double part = std::numbers::pi / 2 / kParts;
  std::array<double, kParts + 1> area{};
  for (std::size_t i = 0; i < kParts; ++i)
    area[i + 1] = area[i] + std::pow(std::cos((static_cast<double>(i) + 0.5) * part), degrees - 1);
  const double wanted = 0.95 * area.back();
  const auto above = static_cast<std::size_t>(std::ranges::lower_bound(area, wanted) - area.begin());
  const double x = static_cast<double>(above) - (area[above] - wanted) / (area[above] - area[above - 1]);
  return std::sqrt(degrees) * std::tan(x * part);
}

Conclusion conclude(const PairedTrack& paired, std::span<const PairedTrack> twins, double matters) {
  const GapTrack& run = paired.track;
  Conclusion c;
  c.steps = run.steps();
  if (const auto lost = run.lost()) {
    c.verdict = Verdict::lost;
    c.steps.first = *lost;
  } else if (run.count() >= kLeastSteps && run.identical()) {
    c.verdict = Verdict::identical;
    c.gap = c.half = 0;
  } else if (run.count() >= kLeastSteps) {
    judge(paired, twins, matters, c);
  }
  if (c.verdict == Verdict::too_short) c.lacking = std::max<std::int64_t>(0, kLeastSteps - run.count());
  c.text = in_words(run, c);
  return c;
}

Conclusion conclude(const HistoryPtr& a, const PairedRun& run, std::span<const PairedRun> twins, double matters,
                    Metric loss) {
  const auto track_of = [&](const PairedRun& other) {
    PairedTrack paired{GapTrack(a, other.run, loss), other.same_start};
    paired.track.update();
    return paired;
  };
  std::vector<PairedTrack> tracks;
  for (const PairedRun& twin : twins) tracks.push_back(track_of(twin));
  return conclude(track_of(run), tracks, matters);
}

}  // namespace moescope
