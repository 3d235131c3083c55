#include "core/findings/oscillation_watch.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/history/finite_mean.h"
#include "core/io/words.h"

namespace moescope {

namespace {

constexpr std::size_t kJudgedLoads = 50;
constexpr int kLastingWindows = 2;  // consecutive windows to begin or to end an oscillation

}  // namespace

std::optional<LoadEpisode> OscillationWatch::block(const LoadBlock& block, const RecentLoad& load,
                                                   const BiasStep& bias_step) {
  keep(block);
  if (steps_.size() < kJudgedLoads) return std::nullopt;
  const std::optional<LoadEpisode> over = judge(load, bias_step);
  rows_.clear(), max_vios_.clear(), steps_.clear();
  return over;
}

void OscillationWatch::keep(const LoadBlock& block) {
  const std::size_t n = block.utilisation.size() / block.max_vio.size();
  for (std::size_t s = 0; s < block.max_vio.size() && steps_.size() < kJudgedLoads; ++s) {
    const std::span<const float> row = block.utilisation.subspan(s * n, n);
    if (std::isnan(row[0])) continue;
    rows_.insert(rows_.end(), row.begin(), row.end());
    max_vios_.push_back(block.max_vio[s]);
    steps_.push_back(block.first + static_cast<std::int64_t>(s));
  }
}

// Returns the lowest autocorrelation of the loads' deviations from their means.
OscillationWatch::Anticorrelation OscillationWatch::strongest_anticorrelation() const {
  const std::size_t n = mean_.size();
  std::array<double, kLags + 1> products{};
  const auto product = [&](std::size_t s, std::size_t t) {
    float sum = 0;
    for (std::size_t e = 0; e < n; ++e) sum += (rows_[s * n + e] - mean_[e]) * (rows_[t * n + e] - mean_[e]);
    return static_cast<double>(sum);
  };
  for (std::size_t lag = 0; lag <= kLags; ++lag) {
    for (std::size_t s = lag; s < kJudgedLoads; ++s) products[lag] += product(s, s - lag);
    products[lag] /= static_cast<double>(kJudgedLoads - lag);
  }
  Anticorrelation deepest;
  for (std::size_t lag = 1; lag <= kLags && products[0] > 0; ++lag) {
    const double correlation = products[lag] / products[0];
    if (correlation < deepest.correlation) deepest = {static_cast<int>(lag), correlation};
  }
  return deepest;
}

OscillationWatch::Swing OscillationWatch::swing(const RecentLoad& load, const BiasStep& bias_step) {
  const auto n = static_cast<std::size_t>(load.n_experts());
  mean_.assign(n, 0.0f);
  for (std::size_t i = 0; i < rows_.size(); ++i) mean_[i % n] += rows_[i] / static_cast<float>(kJudgedLoads);
  Swing swing;
  swing.max_vio = mean_of_finite(max_vios_);
  swing.together_max_vio = static_cast<double>(*std::ranges::max_element(mean_)) - 1;
  swing.stride =
      std::max<std::int64_t>(1, (steps_.back() - steps_.front()) / static_cast<std::int64_t>(kJudgedLoads - 1));
  swing.bias_step = bias_step;
  return swing;
}

bool OscillationWatch::oscillates(const RecentLoad& load, Swing& swing) const {
  const bool uneven_by_turns = swing.max_vio > kOscillatingMaxVio &&
                               swing.max_vio > kTimesChance * load.chance().batch_max_vio &&
                               swing.together_max_vio < swing.max_vio / 2;
  const bool small_step = swing.bias_step.is_known && swing.bias_step.of_margin <= kLargeBiasStep;
  if (!uneven_by_turns || small_step) return false;
  swing.deepest = strongest_anticorrelation();
  if (!swing.bias_step.is_known) {
    const bool far = swing.max_vio - load.chance().batch_max_vio > kFarOscillating &&
                     swing.together_max_vio < kEvenTogether * swing.max_vio;
    return swing.deepest.correlation < (far ? kFarAnticorrelated : kStronglyAnticorrelated);
  }
  const bool tells_little = swing.stride > 1 && swing.bias_step.of_sign_rule;
  return tells_little || swing.deepest.correlation < kAnticorrelated;
}

std::optional<LoadEpisode> OscillationWatch::judge(const RecentLoad& load, const BiasStep& bias_step) {
  Swing now = swing(load, bias_step);
  if (oscillates(load, now)) {
    if (windows_++ == 0) since_ = steps_.front();
    quiet_windows_ = 0;
    last_shown_ = steps_.back();
    newest_ = now;
    return std::nullopt;
  }
  ++quiet_windows_;
  const bool lasted = windows_ >= kLastingWindows;
  if (lasted && quiet_windows_ < kLastingWindows) return std::nullopt;
  windows_ = 0;
  if (!lasted) return std::nullopt;
  return LoadEpisode{FindingKind::oscillating_bias, {since_, last_shown_}, -1, newest_.max_vio};
}

void OscillationWatch::findings(const RecentLoad& load, std::vector<Finding>& out) const {
  if (windows_ < kLastingWindows) return;
  Finding finding = load.finding(FindingKind::oscillating_bias, Severity::warning, since_);
  finding.metric = Metric::max_vio_window;
  finding.knobs = {&RouterConfig::bias_update_rate};
  const Anticorrelation& deepest = newest_.deepest;
  const bool by_bias = newest_.bias_step.is_known;
  finding.title += by_bias ? ": the bias makes the load oscillate" : ": the load oscillates";
  finding.brief = "the fullest expert of a batch gets " + decimal(newest_.max_vio + 1) +
                  " times its fair share (mean of 50 batches), but the fullest expert of these batches together only " +
                  decimal(newest_.together_max_vio + 1) + " times";
  finding.observation = "MaxVio of a batch is " + decimal(newest_.max_vio) +
                        " (mean of 50 batches); MaxVio of these batches together is only " +
                        decimal(newest_.together_max_vio) + ".";
  if (newest_.stride == 1 || !by_bias)
    finding.observation += " An expert that is too full now is too empty " +
                           counted(deepest.lag * newest_.stride, "step", "steps") + " later (correlation " +
                           decimal(deepest.correlation, 2) + ").";
  if (by_bias)
    finding.observation += " A step of the bias is " + decimal(newest_.bias_step.of_margin, 2) +
                           " times the mean score margin, which is " + decimal(newest_.bias_step.margin, 2) + ".";
  else
    finding.observation +=
        " The cause of the oscillation is not known: the log does not have the bias of successive steps.";
  finding.why =
      by_bias ? "The bias overshoots: its step is large compared with the differences of the scores, so that each step "
                "reverses the imbalance instead of reducing it. Batches stay uneven, and the expert of a token depends "
                "on the step."
              : "A bias whose step is large compared with the differences of the scores causes this, and so do batches "
                "whose kinds of text alternate. Batches stay uneven, and the expert of a token depends on the step.";
  out.push_back(std::move(finding));
}

void OscillationWatch::describe(const LoadEpisode& oscillation, const StepAxis& axis, Finding& finding) {
  finding.title += ": the load oscillated";
  finding.observation = "The load oscillated about the fair share over " + axis.words(oscillation.steps) +
                        " (MaxVio of a batch " + decimal(oscillation.max_vio, 2) + "), and then settled.";
}

}  // namespace moescope
