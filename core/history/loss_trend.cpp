#include "core/history/loss_trend.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace moescope {
namespace {

constexpr std::int64_t kTrendSpan = 200, kTrendWindow = 50;
constexpr double kTrendErrors = 2;  // a difference within this many standard errors is noise

struct StepLoss {
  std::int64_t step = 0;
  float loss = 0;
};

struct LossMean {
  double value = 0, error = 0;  // `error`: standard error of the mean
};

LossMean mean_of_losses(std::span<const StepLoss> values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const StepLoss& each : values) sum += static_cast<double>(each.loss);
  const double mean = sum / n;
  for (const StepLoss& each : values) squares += std::pow(static_cast<double>(each.loss) - mean, 2);
  return {mean, std::sqrt(squares / std::max(1.0, n - 1) / n)};
}

// Returns the losses of the newest n steps up to `step`; steps without a loss are left out.
std::vector<StepLoss> newest_losses(const History& history, std::int64_t step, std::int64_t n) {
  const std::vector<std::int64_t> steps = history.steps_in(history.last_steps(n, step));
  const std::vector<float> values = history.values_at(Metric::ce_loss, kWholeRun, steps);
  std::vector<StepLoss> losses;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (!is_missing(values[i])) losses.push_back({steps[i], values[i]});
  return losses;
}

}  // namespace

LossTrend loss_trend(const History& history, std::int64_t step) {
  LossTrend trend;
  const std::vector<StepLoss> losses = newest_losses(history, step, kTrendSpan + kTrendWindow);
  const auto have = static_cast<std::int64_t>(losses.size());
  trend.steps = have;
  if (have == 0) return trend;
  if (!std::isfinite(losses.back().loss)) {
    trend.direction = LossTrend::lost;
    return trend;
  }
  if (have < kTrendLeastSteps) return trend;
  const std::int64_t apart = have >= kTrendSpan + kTrendWindow ? kTrendSpan : have / 2;
  const auto window = static_cast<std::size_t>(std::min(kTrendWindow, have - apart));
  trend.span = losses.back().step - losses[losses.size() - 1 - static_cast<std::size_t>(apart)].step;
  const std::span<const StepLoss> all(losses);
  const LossMean now = mean_of_losses(all.last(window));
  const LossMean before = mean_of_losses(all.first(all.size() - static_cast<std::size_t>(apart)).last(window));
  const double fall = before.value - now.value, noise = kTrendErrors * std::hypot(now.error, before.error);
  trend.direction = std::isnan(fall) ? LossTrend::lost
                    : fall > noise   ? LossTrend::falling
                    : fall < -noise  ? LossTrend::rising
                                     : LossTrend::flat;
  trend.change = trend.direction == LossTrend::flat ? noise : std::abs(fall);
  return trend;
}

}  // namespace moescope
