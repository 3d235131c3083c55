#include "core/findings/oscillation_watch.h"

#include <algorithm>
#include <cmath>

#include "core/files/text/no_value.h"
#include "core/files/text/words.h"

namespace moescope {

namespace {

constexpr std::size_t kJudgedLoads = 50;
constexpr int kLastingWindows = 2;  // consecutive windows to begin or to end an oscillation

constexpr const char* kWhyByBias =
    "The bias overshoots: its step is large compared with the differences of the scores, so that each step reverses "
    "the imbalance instead of reducing it. Batches stay uneven, and the expert of a token depends on the step.";
constexpr const char* kWhyUnknown =
    "A bias whose step is large compared with the differences of the scores causes this, and so do batches whose kinds "
    "of text alternate. Batches stay uneven, and the expert of a token depends on the step.";
constexpr const char* kWhyOfTexts =
    "The load changes between two states, or the loss alternates with it, as if batches of two kinds of text "
    "alternate. The router need not be at fault. Batches that mix the kinds of text would be more even.";

}  // namespace

// Returns the mean over the rows of their MaxVio, which is high for means of loads only if these loads are alike.
double OscillationWatch::mean_max_vio(const Series& series, std::size_t experts) {
  double sum = 0;
  for (std::size_t i = 0; i < series.size(); ++i)
    sum += static_cast<double>(std::ranges::max(std::span(series.rows).subspan(i * experts, experts))) - 1;
  return sum / series.size();
}

void OscillationWatch::Series::forget(std::size_t n) {
  const std::ptrdiff_t experts = rows.size() / size(), old = n;
  rows.erase(rows.begin(), rows.begin() + old * experts);
  losses.erase(losses.begin(), losses.begin() + old);
  steps.erase(steps.begin(), steps.begin() + old);
}

std::optional<LoadEpisode> OscillationWatch::block(const LoadBlock& block, const RecentLoad& load,
                                                   const BiasStep& bias_step) {
  keep(block);
  if (loads_.size() < kJudgedLoads) return std::nullopt;
  for (std::size_t i = 0; i < kJudgedLoads / kLoadsOfMean; ++i) keep_mean(i * kLoadsOfMean);
  Swing newest = swing(loads_, load, bias_step);
  const bool is_fast = oscillates(load, newest);
  std::optional<LoadEpisode> ended = follow(is_fast, newest, loads_, kLastingWindows, fast_);
  loads_ = {};
  if (means_.size() < kJudgedMeans) return ended;
  Swing slow = swing(means_, load, bias_step);
  const bool is_slow = oscillates_slowly(load, slow) && fast_.windows == 0;
  const std::optional<LoadEpisode> slow_over = follow(is_slow, slow, means_, 1, slow_);
  means_.forget(kJudgedMeans / 2);
  return ended ? ended : slow_over;
}

void OscillationWatch::keep(const LoadBlock& block) {
  const std::size_t n = block.utilisation.size() / block.max_vio.size();
  for (std::size_t s = 0; s < block.max_vio.size() && loads_.size() < kJudgedLoads; ++s) {
    const std::span<const float> row = block.utilisation.subspan(s * n, n);
    if (std::isnan(row[0])) continue;
    loads_.rows.insert(loads_.rows.end(), row.begin(), row.end());
    loads_.losses.push_back(s < block.losses.size() ? block.losses[s] : kNoValue);
    loads_.steps.push_back(block.first + static_cast<std::int64_t>(s));
  }
}

// Keeps the mean of the loads from `first` on.
void OscillationWatch::keep_mean(std::size_t first) {
  const std::size_t n = loads_.rows.size() / loads_.size(), at = means_.rows.size();
  means_.rows.resize(at + n);
  for (std::size_t i = 0; i < kLoadsOfMean * n; ++i)
    means_.rows[at + i % n] += loads_.rows[first * n + i] / kLoadsOfMean;
  means_.losses.push_back(static_cast<float>(mean_of_finite(std::span(loads_.losses).subspan(first, kLoadsOfMean))));
  means_.steps.push_back(loads_.steps[first]);
}

OscillationWatch::Swing OscillationWatch::swing(const Series& series, const RecentLoad& load,
                                                const BiasStep& bias_step) const {
  const std::size_t n = load.n_experts();
  const std::int64_t size = series.size();
  const bool is_slow = &series == &means_;
  std::vector<float> mean(n);
  for (std::size_t i = 0; i < series.rows.size(); ++i) mean[i % n] += series.rows[i] / size;
  Swing swing;
  swing.max_vio = mean_max_vio(series, n);
  swing.together_max_vio = static_cast<double>(*std::ranges::max_element(mean)) - 1;
  const std::int64_t loads = (size - 1) * static_cast<std::int64_t>(is_slow ? kLoadsOfMean : 1);
  const std::int64_t steps = load.axis().step(series.steps.back()) - load.axis().step(series.steps.front());
  swing.stride = std::max<std::int64_t>(1, steps / loads);
  swing.bias_step = bias_step;
  if (!is_uneven_by_turns(swing, load)) return swing;
  const std::vector<double> correlations = autocorrelations(series.rows, mean, is_slow ? 2 * kSlowLags : kLags);
  const int first = is_slow ? kFirstSlowLag : 1, last = is_slow ? kSlowLags : kLags;
  for (int lag = first; lag <= last; ++lag) {
    const double correlation = correlations[lag];
    if (correlation >= swing.deepest.correlation) continue;
    if (is_slow && correlations[2 * lag] < kSlowCorrelated) continue;
    swing.deepest = {lag * to_int(is_slow ? kLoadsOfMean : 1), correlation};
  }
  swing.texts_alternate = swing.deepest.lag > 0 && alternates_with_texts(series.rows, mean, series.losses);
  return swing;
}

bool OscillationWatch::oscillates(const RecentLoad& load, Swing& swing) const {
  if (!is_uneven_by_turns(swing, load)) return false;
  const bool small_step = swing.bias_step.is_known && swing.bias_step.margin_ratio <= kLargeBiasStep;
  const double correlation = swing.deepest.correlation;
  if (small_step) return swing.texts_alternate && correlation < kStronglyAnticorrelated;
  if (!swing.bias_step.is_known) {
    const bool far = swing.max_vio - load.chance().batch_max_vio > kFarOscillating &&
                     swing.together_max_vio < kEvenTogether * swing.max_vio;
    return correlation < (far ? kFarAnticorrelated : kStronglyAnticorrelated);
  }
  swing.texts_alternate = false;  // the step of the bias is large enough to be the cause
  const bool tells_little = swing.stride > 1 && swing.bias_step.by_sign_rule;
  return tells_little || correlation < kAnticorrelated;
}

std::optional<LoadEpisode> OscillationWatch::follow(bool is_swinging, const Swing& swing, const Series& series,
                                                    int lasting, Episode& episode) {
  if (is_swinging) {
    if (episode.windows++ == 0) episode.first_step = series.steps.front();
    episode.quiet_windows = 0;
    episode.last_shown = series.steps.back();
    episode.newest = swing;
    return std::nullopt;
  }
  ++episode.quiet_windows;
  const bool lasted = episode.windows >= lasting;
  if (lasted && episode.quiet_windows < lasting) return std::nullopt;
  episode.windows = 0;
  if (!lasted || episode.newest.texts_alternate) return std::nullopt;
  return LoadEpisode{
      FindingKind::oscillating_bias, {episode.first_step, episode.last_shown}, -1, episode.newest.max_vio};
}

void OscillationWatch::findings(const RecentLoad& load, std::vector<Finding>& out) const {
  if (fast_.windows >= kLastingWindows) return add(load, fast_, out);
  if (slow_.windows > 0) add(load, slow_, out);
}

void OscillationWatch::add(const RecentLoad& load, const Episode& episode, std::vector<Finding>& out) const {
  const Swing& newest = episode.newest;
  const bool by_texts = newest.texts_alternate, by_bias = newest.bias_step.is_known && !by_texts;
  const std::string loads = std::to_string(&episode == &slow_ ? kJudgedMeans * kLoadsOfMean : kJudgedLoads);
  Finding finding =
      load.finding(by_texts ? FindingKind::alternating_texts : FindingKind::oscillating_bias, episode.first_step);
  finding.knobs = {by_texts ? Setting(&DataConfig::mixture) : Setting(&RouterConfig::bias_update_rate)};
  if (by_texts)
    finding.title += ": the load alternates with the kind of text";
  else
    finding.title += by_bias ? ": the bias makes the load oscillate" : ": the load oscillates";
  finding.brief = "the fullest expert of a batch gets " + decimal(newest.max_vio + 1) +
                  " times its fair share (mean of " + loads +
                  " batches), but the fullest expert of these batches together only " +
                  decimal(newest.together_max_vio + 1) + " times";
  finding.observation = "MaxVio of a batch is " + decimal(newest.max_vio) + " (mean of " + loads +
                        " batches); MaxVio of these batches together is only " + decimal(newest.together_max_vio) + ".";
  if (newest.stride == 1 || !by_bias)
    finding.observation += " An expert that is too full now is too empty " +
                           counted(newest.deepest.lag * newest.stride, "step", "steps") + " later (correlation " +
                           decimal(newest.deepest.correlation, 2) + ").";
  if (by_bias)
    finding.observation += " A step of the bias is " + decimal(newest.bias_step.margin_ratio, 2) +
                           " times the mean score margin, which is " + decimal(newest.bias_step.margin, 2) + ".";
  else if (!by_texts)
    finding.observation +=
        &episode == &slow_
            ? " The step of the bias does not show the cause of a slow oscillation."
            : " The cause of the oscillation is not known: the log does not have the bias of successive steps.";
  finding.meaning = kWhyUnknown;
  if (by_bias) finding.meaning = kWhyByBias;
  if (by_texts) finding.meaning = kWhyOfTexts;
  out.push_back(std::move(finding));
}

void OscillationWatch::describe(const LoadEpisode& oscillation, const StepAxis& axis, Finding& finding) {
  finding.title += ": the load oscillated";
  finding.observation = "The load oscillated about the fair share over " + axis.words(oscillation.steps) +
                        " (MaxVio of a batch " + decimal(oscillation.max_vio, 2) + "), and then settled.";
}

}  // namespace moescope
