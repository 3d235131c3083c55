#include "core/telemetry/comparison.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>

#include "core/telemetry/router_stats.h"

namespace moescope {

namespace {

// Bias-corrected exponential moving average of what is finite.
class Average {
 public:
  void add(double value) {
    if (!std::isfinite(value)) return;
    sum_ = kGapFactor * sum_ + (1 - kGapFactor) * value;
    weight_ = kGapFactor * weight_ + (1 - kGapFactor);
  }
  float get() const { return weight_ > 0 ? static_cast<float>(sum_ / weight_) : kNoValue; }

 private:
  double sum_ = 0, weight_ = 0;
};

// b - a at every step of `range`; NaN where one has no finite value.
std::vector<double> gaps(const History& a, const History& b, Metric metric, int layer, StepRange range) {
  const std::vector<float> of_a = a.values(metric, layer, range), of_b = b.values(metric, layer, range);
  std::vector<double> out(of_a.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double gap = static_cast<double>(of_b[i]) - static_cast<double>(of_a[i]);
    out[i] = std::isfinite(gap) ? gap : std::nan("");
  }
  return out;
}

std::vector<float> smoothed(const std::vector<double>& values) {
  std::vector<float> out;
  out.reserve(values.size());
  Average average;
  for (const double value : values) {
    average.add(value);
    out.push_back(average.get());
  }
  return out;
}

// Half width at every step of `range`, which begins where all runs do.
std::vector<float> band_of(std::span<const HistoryPtr> runs, Metric metric, int layer, StepRange range) {
  std::vector<double> sum(static_cast<std::size_t>(range.size()), 0.0);
  std::vector<int> pairs(sum.size(), 0);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t j = i + 1; j < runs.size(); ++j) {
      std::vector<double> sizes = gaps(*runs[i], *runs[j], metric, layer, range);
      const StepRange both = common_steps(*runs[i], *runs[j]);
      for (double& size : sizes) size = std::fabs(size);
      const std::vector<float> width = smoothed(sizes);
      for (std::size_t s = 0; s < width.size(); ++s) {
        if (is_missing(width[s]) || range.first + static_cast<std::int64_t>(s) > both.last) continue;
        sum[s] += width[s];
        ++pairs[s];
      }
    }
  }
  std::vector<float> band(sum.size(), kNoValue);
  for (std::size_t s = 0; s < band.size(); ++s) {
    if (pairs[s]) band[s] = static_cast<float>(kBandFactor * sum[s] / pairs[s]);
  }
  return band;
}

std::int64_t bin_begin(StepRange range, int bins, int bin) {
  const std::int64_t size = range.size();  // in two parts, so that huge ranges do not overflow
  return range.first + size / bins * bin + size % bins * bin / bins;
}

// Of `values`, which begin at step `first`, the one at the last step of each bin that they reach.
std::vector<float> at_bin_ends(const std::vector<float>& values, std::int64_t first, StepRange range, int bins) {
  std::vector<float> out(static_cast<std::size_t>(bins), kNoValue);
  const std::int64_t end = first + static_cast<std::int64_t>(values.size());
  for (int b = 0; b < bins; ++b) {
    const std::int64_t from = std::max(first, bin_begin(range, bins, b));
    const std::int64_t to = std::min(end, bin_begin(range, bins, b + 1));
    if (from < to) out[static_cast<std::size_t>(b)] = values[static_cast<std::size_t>(to - 1 - first)];
  }
  return out;
}

StepRange all_steps(std::span<const HistoryPtr> runs) {  // from the first to the last that any took
  StepRange all;
  for (const HistoryPtr& run : runs) {
    const StepRange steps = run->steps();
    if (steps.empty()) continue;
    all = all.empty() ? steps : StepRange{std::min(all.first, steps.first), std::max(all.last, steps.last)};
  }
  return all;
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

std::string number(float value) {
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

std::string higher_or_lower(const History& b, float gap) {
  return b.info().name + (gap > 0 ? " is higher" : " is lower");
}

void put_in_words(const History& a, const History& b, Conclusion& c) {
  const std::string who = b.info().name + " against " + a.info().name + ": ";
  const std::string gap = number(c.gap) + " nats/byte";
  switch (c.verdict) {
    case Verdict::too_short:
      c.text = who + "fewer than " + std::to_string(kLastingSteps) + " steps in common, too few to judge";
      break;
    case Verdict::identical:
      c.text = who + "the same losses to the bit over " + steps_text(c.steps);
      break;
    case Verdict::no_band:
      c.text = who + higher_or_lower(b, c.gap) + " by " + gap + " at step " + std::to_string(c.steps.last) +
               "; without a twin that differs only in seed nothing tells whether that is more than noise";
      break;
    case Verdict::inside:
      c.text = who + "inside the seed-noise band: no evidence of a difference over " + steps_text(c.steps) + " (gap " +
               gap + ", band +-" + number(c.band) + ")";
      break;
    case Verdict::returned:
      c.text = who + "outside the seed-noise band over " + steps_text(c.out) + ", where " + higher_or_lower(b, c.gap) +
               " by up to " + gap + " (band +-" + number(c.band) + "), inside at the end";
      break;
    case Verdict::outside:
      c.text = who + "outside the seed-noise band from step " + std::to_string(c.out.first) +
               " on: " + higher_or_lower(b, c.gap) + " by " + gap + " at step " + std::to_string(c.out.last) +
               " (band +-" + number(c.band) + ")";
      break;
    case Verdict::lost:
      c.text = who + "one loss is no number any more from step " + std::to_string(c.out.first) + " on";
      break;
  }
}

// The step from which on the loss of just one is not finite; none: both are or both are not at the end.
std::optional<std::int64_t> lost_from(const History& a, const History& b, StepRange steps) {
  const std::vector<float> of_a = a.values(Metric::ce_loss, kWholeRun, steps);
  const std::vector<float> of_b = b.values(Metric::ce_loss, kWholeRun, steps);
  std::optional<std::int64_t> from;
  for (std::size_t s = of_a.size(); s-- > 0 && std::isfinite(of_a[s]) != std::isfinite(of_b[s]);) {
    from = steps.first + static_cast<std::int64_t>(s);
  }
  return from;
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

}  // namespace

StepRange common_steps(const History& a, const History& b) {
  const StepRange of_a = a.steps(), of_b = b.steps();
  if (of_a.empty() || of_b.empty()) return {};
  return {std::max(of_a.first, of_b.first), std::min(of_a.last, of_b.last)};
}

std::vector<PyramidBin> gap_series(const History& a, const History& b, Metric metric, int layer, StepRange range,
                                   int bins) {
  assert(bins > 0);
  std::vector<PyramidBin> out(static_cast<std::size_t>(bins));
  const StepRange common = common_steps(a, b);
  const StepRange steps{std::max(range.first, common.first), std::min(range.last, common.last)};
  if (steps.empty()) return out;
  const std::vector<double> values = gaps(a, b, metric, layer, steps);
  int bin = 0;
  for (std::int64_t step = steps.first; step <= steps.last; ++step) {
    while (bin + 1 < bins && step >= bin_begin(range, bins, bin + 1)) ++bin;
    const double value = values[static_cast<std::size_t>(step - steps.first)];
    out[static_cast<std::size_t>(bin)].add(std::isnan(value) ? kNoValue : static_cast<float>(value));
  }
  return out;
}

std::vector<float> smoothed_gap(const History& a, const History& b, Metric metric, int layer, StepRange range,
                                int bins) {
  assert(bins > 0);
  const StepRange common = common_steps(a, b);
  const StepRange steps{common.first, std::min(range.last, common.last)};
  if (steps.empty() || range.empty()) return std::vector<float>(static_cast<std::size_t>(bins), kNoValue);
  return at_bin_ends(smoothed(gaps(a, b, metric, layer, steps)), steps.first, range, bins);
}

std::vector<float> noise_band(std::span<const HistoryPtr> same_settings, Metric metric, int layer, StepRange range,
                              int bins) {
  assert(bins > 0);
  const StepRange all = all_steps(same_settings);
  const StepRange steps{all.first, std::min(range.last, all.last)};
  if (steps.empty() || range.empty()) return std::vector<float>(static_cast<std::size_t>(bins), kNoValue);
  return at_bin_ends(band_of(same_settings, metric, layer, steps), steps.first, range, bins);
}

std::optional<std::int64_t> first_difference(const History& a, const History& b, double epsilon) {
  const StepRange steps = common_steps(a, b);
  const std::vector<float> of_a = a.values(Metric::ce_loss, kWholeRun, steps);
  const std::vector<float> of_b = b.values(Metric::ce_loss, kWholeRun, steps);
  for (std::size_t s = 0; s < of_a.size(); ++s) {
    if (is_missing(of_a[s]) || is_missing(of_b[s])) continue;
    const bool finite = std::isfinite(of_a[s]);
    const double gap = static_cast<double>(of_b[s]) - static_cast<double>(of_a[s]);
    if (finite != std::isfinite(of_b[s]) || (finite && std::fabs(gap) > epsilon)) {
      return steps.first + static_cast<std::int64_t>(s);
    }
  }
  return std::nullopt;
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
  Conclusion c;
  c.steps = common_steps(a, b);
  if (c.steps.empty()) c.steps = {};
  if (const auto lost = lost_from(a, b, c.steps)) {
    c.verdict = Verdict::lost;
    c.out = {*lost, c.steps.last};
  } else if (c.steps.size() >= kLastingSteps) {
    const std::vector<double> raw = gaps(a, b, Metric::ce_loss, kWholeRun, c.steps);
    std::vector<float> gap = smoothed(raw), band = band_of(same_settings, Metric::ce_loss, kWholeRun, c.steps);
    if (std::all_of(raw.begin(), raw.end(), [](double value) { return value == 0; })) {
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
  put_in_words(a, b, c);
  return c;
}

}  // namespace moescope
