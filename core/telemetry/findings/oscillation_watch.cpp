#include "core/telemetry/findings/oscillation_watch.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/telemetry/frame/words.h"

namespace moescope {

namespace {

constexpr int kLeastRows = 40;      // of 50 steps, to judge an oscillation by
constexpr int kLastingWindows = 2;  // an oscillation is one when it shows twice, and over when it is gone twice

struct Anticorrelation {
  int lag = 0;
  double correlation = 0;
};

// The deepest autocorrelation of the deviations of the window's 50 loads from their means; 0: too few rows.
Anticorrelation strongest_anticorrelation(const RecentLoad& load) {
  const std::span<const float> mean = load.mean();
  std::array<double, kLags + 1> products{};
  std::array<int, kLags + 1> pairs{};
  for (std::int64_t s = 0; s < kMeanSteps; ++s) {
    const std::span<const float> now = load.row(s);
    if (std::isnan(now[0])) continue;
    for (std::int64_t lag = 0; lag <= std::min<std::int64_t>(kLags, s); ++lag) {
      const std::span<const float> then = load.row(s - lag);
      if (std::isnan(then[0])) continue;
      float sum = 0;
      for (std::size_t e = 0; e < mean.size(); ++e) sum += (now[e] - mean[e]) * (then[e] - mean[e]);
      products[static_cast<std::size_t>(lag)] += static_cast<double>(sum);
      ++pairs[static_cast<std::size_t>(lag)];
    }
  }
  if (pairs[0] < kLeastRows || products[0] <= 0) return {};
  Anticorrelation deepest;
  for (int lag = 1; lag <= kLags; ++lag) {
    const auto i = static_cast<std::size_t>(lag);
    if (pairs[i] == 0) continue;
    const double correlation = products[i] / pairs[i] / (products[0] / pairs[0]);
    if (correlation < deepest.correlation) deepest = {lag, correlation};
  }
  return deepest;
}

}  // namespace

std::optional<LoadEpisode> OscillationWatch::window(const RecentLoad& load, const BiasStep& bias_step) {
  const double max_vio = load.mean_max_vio(), window_max_vio = load.mean_of(load.fullest()) - 1;
  const bool uneven_by_turns =
      bias_step.of_margin > kLargeBiasStep && max_vio > kOscillatingMaxVio && window_max_vio < max_vio / 2;
  const Anticorrelation found = uneven_by_turns ? strongest_anticorrelation(load) : Anticorrelation{};
  if (found.correlation < kAnticorrelated) {
    if (windows_++ == 0) since_ = load.first_step();
    quiet_windows_ = 0;
    newest_ = {found.lag, found.correlation, max_vio, window_max_vio, bias_step};
    return std::nullopt;
  }
  ++quiet_windows_;
  const bool lasted = windows_ >= kLastingWindows;
  if (lasted && quiet_windows_ < kLastingWindows) return std::nullopt;
  windows_ = 0;
  if (!lasted) return std::nullopt;
  return LoadEpisode{
      FindingKind::oscillating_bias, {since_, load.last_step() - kMeanSteps * quiet_windows_}, -1, newest_.max_vio};
}

void OscillationWatch::findings(const RecentLoad& load, std::vector<Finding>& out) const {
  if (windows_ < kLastingWindows) return;
  Finding finding = load.finding(FindingKind::oscillating_bias, Severity::warning, {since_, load.last_step()}, true);
  finding.metric = Metric::max_vio_window;
  finding.knobs = {"router.bias_update_rate"};
  finding.title += ": the bias makes the load oscillate";
  finding.saw = "MaxVio of a batch is " + decimal(newest_.max_vio, 2) + ", of 50 steps together only " +
                decimal(newest_.window_max_vio, 2) + ": an expert that is too full now is too empty " +
                counted(newest_.lag, "step", "steps") + " later (correlation " + decimal(newest_.correlation, 2) +
                "). A step of the bias is " + decimal(newest_.bias_step.of_margin, 2) +
                " times the mean score margin, which is " + decimal(newest_.bias_step.margin, 2) + ".";
  finding.why =
      "The bias overshoots: its step is large compared with the differences of the scores, so that each step reverses "
      "the imbalance instead of reducing it. Batches stay uneven, and where a token goes depends on the step.";
  out.push_back(std::move(finding));
}

void OscillationWatch::describe(const LoadEpisode& oscillation, const StepAxis& axis, Finding& finding) {
  finding.title += ": the load oscillated";
  finding.saw = "The load oscillated about the even one over " + axis.words(oscillation.steps) +
                " (MaxVio of a batch " + decimal(oscillation.max_vio, 2) + "), and then settled.";
}

}  // namespace moescope
