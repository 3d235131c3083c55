#include "core/telemetry/findings/comparison.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>

#include "core/telemetry/frame/router_stats.h"

namespace moescope {

namespace {

// The runs must outlive the track.
GapTrack track_of(const History& a, const History& b, Metric metric = Metric::ce_loss, int layer = kWholeRun) {
  GapTrack track(HistoryPtr(HistoryPtr(), &a), HistoryPtr(HistoryPtr(), &b), metric, layer);
  track.update();
  return track;
}

std::vector<GapTrack> pairs_of(std::span<const HistoryPtr> runs, Metric metric = Metric::ce_loss,
                               int layer = kWholeRun) {
  std::vector<GapTrack> pairs;
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (std::size_t j = i + 1; j < runs.size(); ++j) pairs.emplace_back(runs[i], runs[j], metric, layer).update();
  return pairs;
}

// Half width at a step; kNoValue: no pair has got there.
float band_at(const std::vector<GapTrack>& pairs, std::int64_t step) {
  double sum = 0;
  int counted = 0;
  for (const GapTrack& pair : pairs) {
    const StepRange steps = pair.steps();
    if (step < steps.first || step > steps.last) continue;
    const float size = pair.size()[static_cast<std::size_t>(step - steps.first)];
    if (is_missing(size)) continue;
    sum += static_cast<double>(size);
    ++counted;
  }
  return counted ? static_cast<float>(kBandFactor * sum / counted) : kNoValue;
}

// The same at every step of `steps`.
std::vector<float> band_over(const std::vector<GapTrack>& pairs, StepRange steps) {
  std::vector<double> sum(static_cast<std::size_t>(steps.size()), 0.0);
  std::vector<int> counted(sum.size(), 0);
  std::vector<float> sizes;
  for (const GapTrack& pair : pairs) {
    const StepRange both{std::max(steps.first, pair.steps().first), std::min(steps.last, pair.steps().last)};
    if (both.empty()) continue;
    sizes.resize(static_cast<std::size_t>(both.size()));
    const auto from = static_cast<std::size_t>(both.first - pair.steps().first);
    pair.size().copy(from, from + sizes.size(), sizes.data());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (is_missing(sizes[i])) continue;
      const std::size_t at = i + static_cast<std::size_t>(both.first - steps.first);
      sum[at] += static_cast<double>(sizes[i]);
      ++counted[at];
    }
  }
  std::vector<float> band(sum.size(), kNoValue);
  for (std::size_t i = 0; i < band.size(); ++i)
    if (counted[i]) band[i] = static_cast<float>(kBandFactor * sum[i] / counted[i]);
  return band;
}

std::int64_t bin_begin(StepRange range, int bins, int bin) {
  const std::int64_t size = range.size();  // in two parts, so that huge ranges do not overflow
  return range.first + size / bins * bin + size % bins * bin / bins;
}

// value(step) at the last step of `steps` in each bin; kNoValue where the bin has none.
template <class Value>
std::vector<float> at_bin_ends(StepRange steps, StepRange range, int bins, Value value) {
  std::vector<float> out(static_cast<std::size_t>(bins), kNoValue);
  if (steps.empty() || range.empty()) return out;
  for (int b = 0; b < bins; ++b) {
    const std::int64_t from = std::max(steps.first, bin_begin(range, bins, b));
    const std::int64_t to = std::min(steps.last + 1, bin_begin(range, bins, b + 1));
    if (from < to) out[static_cast<std::size_t>(b)] = value(to - 1);
  }
  return out;
}

std::vector<PyramidBin> series_of(const GapTrack& track, StepRange range, int bins) {
  std::vector<PyramidBin> out(static_cast<std::size_t>(bins));
  const StepRange steps = track.steps();
  if (steps.empty() || range.empty()) return out;
  for (int b = 0; b < bins; ++b) {
    const std::int64_t from = std::max(steps.first, bin_begin(range, bins, b));
    const std::int64_t to = std::min(steps.last + 1, bin_begin(range, bins, b + 1));
    if (from < to)
      out[static_cast<std::size_t>(b)] =
          track.raw().slice(static_cast<std::size_t>(from - steps.first), static_cast<std::size_t>(to - steps.first));
  }
  return out;
}

std::vector<float> smoothed_of(const GapTrack& track, StepRange range, int bins) {
  const StepRange steps = track.steps();
  return at_bin_ends(steps, range, bins,
                     [&](std::int64_t step) { return track.smooth()[static_cast<std::size_t>(step - steps.first)]; });
}

std::vector<float> band_of(const std::vector<GapTrack>& pairs, StepRange range, int bins) {
  StepRange all;  // from the first to the last step that any pair took
  for (const GapTrack& pair : pairs) {
    const StepRange steps = pair.steps();
    if (steps.empty()) continue;
    all = all.empty() ? steps : StepRange{std::min(all.first, steps.first), std::max(all.last, steps.last)};
  }
  return at_bin_ends(all, range, bins, [&](std::int64_t step) { return band_at(pairs, step); });
}

float mean_of(const History& history, Metric metric, StepRange window) {
  double sum = 0;
  int finite = 0;
  float last = kNoValue;
  for (const float value : history.values(metric, kWholeRun, window)) {
    if (!is_missing(value)) last = value;
    if (!std::isfinite(value)) continue;
    sum += static_cast<double>(value);
    ++finite;
  }
  return finite ? static_cast<float>(sum / finite) : last;
}

std::string two_digits(float value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", static_cast<double>(std::fabs(value)));
  return text;
}

std::string steps_text(StepRange range) {
  return "steps " + std::to_string(range.first) + " to " + std::to_string(range.last);
}

// Longest stretch of `out` and the one that lasts to the end, as index ranges.
struct Stretches {
  StepRange longest, last;
};
Stretches stretches_of(const std::vector<bool>& out) {
  Stretches found;
  StepRange open;
  for (std::int64_t s = 0; s < static_cast<std::int64_t>(out.size()); ++s) {
    if (!out[static_cast<std::size_t>(s)]) {
      open = {};
      continue;
    }
    open = open.empty() ? StepRange{s, s} : StepRange{open.first, s};
    if (open.size() > found.longest.size()) found.longest = open;
  }
  found.last = open;
  return found;
}

// In the first steps runs of equal settings have not had time to drift apart, and their band is as narrow as rounding:
// leaving it then and coming back says nothing about the training.
constexpr std::int64_t kBandOpens = 100;

std::string higher_or_lower(float gap) {
  return gap > 0 ? "its loss is higher" : "its loss is lower";
}

void put_in_words(const History& a, const History& b, Conclusion& c) {
  const std::string who = b.info().name + " against " + a.info().name + ": ";
  const std::string gap = two_digits(c.gap) + " nats/token";
  switch (c.verdict) {
    case Verdict::too_short:
      c.text = who + "fewer than " + std::to_string(kLastingSteps) + " steps in common, too few to judge";
      break;
    case Verdict::identical:
      c.text = who + "the same losses to the bit over " + steps_text(c.steps);
      break;
    case Verdict::no_band:
      c.text = who + higher_or_lower(c.gap) + " by " + gap + " at step " + std::to_string(c.steps.last) +
               "; without a twin that differs only in seed it is not known whether that is more than noise";
      break;
    case Verdict::inside:
      c.text = who + "inside the noise band: no evidence of a difference over " + steps_text(c.steps) + " (gap " +
               (c.gap < 0 ? "-" : "+") + gap + ", band +-" + two_digits(c.band) + ")";
      if (!c.out.empty())
        c.text += ", but for " + steps_text(c.out) + ", too early for equal runs to have drifted apart";
      break;
    case Verdict::returned:
      c.text = who + "outside the noise band over " + steps_text(c.out) + ", where " + higher_or_lower(c.gap) +
               " by up to " + gap + " (band +-" + two_digits(c.band) + "), inside at the end";
      break;
    case Verdict::outside:
      c.text = who + "outside the noise band from step " + std::to_string(c.out.first) +
               " on: " + higher_or_lower(c.gap) + " by " + gap + " at step " + std::to_string(c.out.last) +
               " (band +-" + two_digits(c.band) + ")";
      break;
    case Verdict::lost:
      c.text = who + "one loss is NaN or infinite from step " + std::to_string(c.out.first) + " on";
      break;
  }
}

// Steps up to the last that has a band.
std::int64_t steps_with(const std::vector<float>& band) {
  const auto last = std::find_if(band.rbegin(), band.rend(), [](float width) { return !is_missing(width); });
  return band.rend() - last;
}

void judge_against_band(const std::vector<float>& gap, const std::vector<float>& band, Conclusion& c) {
  std::vector<bool> out(gap.size());
  for (std::size_t s = 0; s < gap.size(); ++s) out[s] = std::fabs(gap[s]) > band[s];
  const Stretches found = stretches_of(out);
  std::size_t at = gap.size() - 1;
  StepRange where;
  if (found.last.size() >= kLastingSteps) {
    c.verdict = Verdict::outside;
    where = found.last;
  } else if (found.longest.size() >= kLastingSteps && found.longest.last < kBandOpens) {
    c.verdict = Verdict::inside;
    c.out = {c.steps.first + found.longest.first, c.steps.first + found.longest.last};
  } else if (found.longest.size() >= kLastingSteps) {
    c.verdict = Verdict::returned;
    where = found.longest;
    for (std::int64_t s = where.first; s <= where.last; ++s) {
      const auto i = static_cast<std::size_t>(s);
      if (s == where.first || std::fabs(gap[i]) > std::fabs(gap[at])) at = i;
    }
  } else {
    c.verdict = Verdict::inside;
  }
  if (!where.empty()) c.out = {c.steps.first + where.first, c.steps.first + where.last};
  c.gap = gap[at];
  c.band = band[at];
}

Conclusion conclude_from(const GapTrack& track, const std::vector<GapTrack>& pairs) {
  Conclusion c;
  c.steps = track.steps();
  if (const auto lost = track.lost()) {
    c.verdict = Verdict::lost;
    c.out = {*lost, c.steps.last};
  } else if (c.steps.size() >= kLastingSteps) {
    std::vector<float> gap(track.smooth().size()), band = band_over(pairs, c.steps);
    track.smooth().copy(0, gap.size(), gap.data());
    if (track.identical()) {
      c.verdict = Verdict::identical;
      c.gap = 0;
    } else if (is_missing(gap.back())) {
      c.verdict = Verdict::too_short;  // no step has two losses
    } else if (const std::int64_t judged = steps_with(band); judged < kLastingSteps) {
      c.verdict = Verdict::no_band;
      c.gap = gap.back();
    } else {
      c.steps.last = c.steps.first + judged - 1;  // a noise twin may still be catching up
      gap.resize(static_cast<std::size_t>(judged));
      band.resize(static_cast<std::size_t>(judged));
      judge_against_band(gap, band, c);
    }
  }
  put_in_words(*track.a(), *track.b(), c);
  return c;
}

}  // namespace

std::vector<PyramidBin> gap_series(const History& a, const History& b, Metric metric, int layer, StepRange range,
                                   int bins) {
  assert(bins > 0);
  return series_of(track_of(a, b, metric, layer), range, bins);
}

std::vector<float> smoothed_gap(const History& a, const History& b, Metric metric, int layer, StepRange range,
                                int bins) {
  assert(bins > 0);
  return smoothed_of(track_of(a, b, metric, layer), range, bins);
}

std::vector<float> noise_band(std::span<const HistoryPtr> same_settings, Metric metric, int layer, StepRange range,
                              int bins) {
  assert(bins > 0);
  return band_of(pairs_of(same_settings, metric, layer), range, bins);
}

std::optional<std::int64_t> first_difference(const History& a, const History& b, double epsilon) {
  return track_of(a, b).first_beyond(epsilon);
}

std::vector<float> load_difference(const RouterFrame& a, const RouterFrame& b) {
  if (a.tokens_per_expert.size() != b.tokens_per_expert.size()) return {};
  std::vector<float> difference(a.tokens_per_expert.size());
  for (std::size_t e = 0; e < difference.size(); ++e) {
    difference[e] = utilisation(b.tokens_per_expert, e) - utilisation(a.tokens_per_expert, e);
  }
  return difference;
}

RunFigures run_figures(const History& history, StepRange window) {
  RunFigures row;
  row.run = history.info().run;
  row.name = history.info().name;
  if (window.empty()) return row;
  row.steps = window.last + 1;
  row.final_loss = history.values(Metric::ce_loss, kWholeRun, {window.last, window.last}).front();
  row.mean_loss = mean_of(history, Metric::ce_loss, window);
  row.max_vio = mean_of(history, Metric::max_vio, window);
  row.tokens_per_s = mean_of(history, Metric::tokens_per_s, window);
  row.sqnr_db = mean_of(history, Metric::quant_sqnr_db, window);
  row.flip_rate = mean_of(history, Metric::flip_rate, window);
  row.rounding_flip_rate = mean_of(history, Metric::rounding_flip_rate, window);
  row.gradient_cosine = mean_of(history, Metric::gradient_cosine, window);
  return row;
}

StepRange last_common_steps(std::span<const HistoryPtr> histories, std::int64_t n) {
  if (histories.empty()) return {};
  StepRange common = histories.front()->steps();
  for (const HistoryPtr& history : histories) {
    const StepRange steps = history->steps();
    common = {std::max(common.first, steps.first), std::min(common.last, steps.last)};
    if (steps.empty()) return {};
  }
  return {std::max(common.first, common.last - n + 1), common.last};
}

Conclusion conclude(const History& a, const History& b, std::span<const HistoryPtr> same_settings) {
  return conclude_from(track_of(a, b), pairs_of(same_settings));
}

void RunGaps::set(const std::vector<HistoryPtr>& runs, const std::vector<HistoryPtr>& same_settings) {
  const auto kept = [](std::vector<GapTrack>& old, const HistoryPtr& a, const HistoryPtr& b) {
    const auto same = std::find_if(old.begin(), old.end(), [&](const GapTrack& t) { return t.a() == a && t.b() == b; });
    return same == old.end() ? GapTrack(a, b) : std::move(*same);
  };
  std::vector<GapTrack> tracks, pairs;
  for (std::size_t run = 1; run < runs.size(); ++run) tracks.push_back(kept(tracks_, runs[0], runs[run]));
  for (std::size_t i = 0; i < same_settings.size(); ++i)
    for (std::size_t j = i + 1; j < same_settings.size(); ++j)
      pairs.push_back(kept(pairs_, same_settings[i], same_settings[j]));
  const bool same_pairs = pairs.size() == pairs_.size() && tracks.size() == tracks_.size();
  tracks_ = std::move(tracks);
  pairs_ = std::move(pairs);
  if (!same_pairs || conclusions_.size() != tracks_.size()) conclusions_.clear();
  update();
}

void RunGaps::update() {
  bool news = conclusions_.size() != tracks_.size();
  for (std::vector<GapTrack>* tracks : {&tracks_, &pairs_})
    for (GapTrack& track : *tracks) news |= track.update();
  if (!news) return;
  conclusions_.clear();
  for (const GapTrack& track : tracks_) conclusions_.push_back(conclude_from(track, pairs_));
}

std::vector<PyramidBin> RunGaps::series(int place, StepRange range, int bins) const {
  return series_of(tracks_[static_cast<std::size_t>(place - 1)], range, bins);
}

std::vector<float> RunGaps::smoothed(int place, StepRange range, int bins) const {
  return smoothed_of(tracks_[static_cast<std::size_t>(place - 1)], range, bins);
}

std::optional<std::int64_t> RunGaps::first_difference(int place, double epsilon) const {
  return tracks_[static_cast<std::size_t>(place - 1)].first_beyond(epsilon);
}

const Conclusion& RunGaps::conclusion(int place) const {
  return conclusions_[static_cast<std::size_t>(place - 1)];
}

std::vector<float> RunGaps::band(StepRange range, int bins) const {
  return pairs_.empty() ? std::vector<float>{} : band_of(pairs_, range, bins);
}

}  // namespace moescope
