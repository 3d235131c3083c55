#include "core/recording/history/loss_trend.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "core/frame/router_stats.h"

namespace moescope {
namespace {

constexpr std::int64_t kTrendSpan = 200, kTrendWindow = 50;
constexpr std::int64_t kMaxReadSteps = 16'000;
// The loss is no longer logged if this many steps follow the newest one, and as many times the most between two losses.
constexpr std::int64_t kTrendLeastUnlogged = 20, kTrendUnloggedTimes = 5;
constexpr double kTrendErrors = 2;  // a difference within this many standard errors is noise
constexpr double kMadToDeviation = 1.4826, kErrorOfMedian = 1.2533;  // of a normal distribution

struct StepLoss {
  std::int64_t step = 0;
  float loss = 0;
  bool is_lost = false;
};

struct TypicalLoss {
  double value = 0, error = 0;  // `error`: standard error of the median
};

TypicalLoss typical(std::span<const StepLoss> losses) {
  std::vector<float> values, distances;
  for (const StepLoss& step_loss : losses) values.push_back(step_loss.loss);
  const float median = percentile(values, 0.5);
  for (const float value : values) distances.push_back(std::fabs(value - median));
  const double deviation = kMadToDeviation * percentile(distances, 0.5);
  return {static_cast<double>(median), kErrorOfMedian * deviation / std::sqrt(losses.size())};
}

struct NewestLosses {
  std::vector<StepLoss> losses;
  std::int64_t unlogged = 0;       // steps after the newest loss
  std::int64_t most_unlogged = 0;  // most between two of these losses
};

void add_loss(StepLoss loss, NewestLosses& newest) {
  if (!newest.losses.empty()) newest.most_unlogged = std::max(newest.most_unlogged, newest.unlogged);
  newest.unlogged = 0;
  newest.losses.push_back(loss);
}

// Reads the newest n steps up to `step`.
NewestLosses losses_of_steps(const History& history, std::int64_t step, std::int64_t n) {
  const std::vector<std::int64_t> steps = history.steps_in(history.last_steps(n, step));
  const std::vector<float> values = history.values_at(Metric::ce_loss, kWholeRun, steps);
  const std::vector<float> norms = history.values_at(Metric::grad_norm, kWholeRun, steps);
  NewestLosses newest;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (is_missing(values[i])) {
      ++newest.unlogged;
      continue;
    }
    // transformers' Trainer logs 0 for a loss that is NaN (logging_nan_inf_filter).
    const bool gradient_lost = !is_missing(norms[i]) && !std::isfinite(norms[i]);
    add_loss({steps[i], values[i], !std::isfinite(values[i]) || (values[i] == 0 && gradient_lost)}, newest);
  }
  return newest;
}

// Reads at least n losses if the run has them, but at most kMaxRead steps: some logs have the loss on few steps.
NewestLosses newest_losses(const History& history, std::int64_t step, std::int64_t n) {
  std::int64_t steps = n;
  NewestLosses newest = losses_of_steps(history, step, steps);
  while (std::ssize(newest.losses) < n && steps < std::min(kMaxReadSteps, history.count())) {
    steps *= 4;
    newest = losses_of_steps(history, step, steps);
  }
  if (std::ssize(newest.losses) > n) newest.losses.erase(newest.losses.begin(), newest.losses.end() - n);
  return newest;
}

}  // namespace

LossTrend loss_trend(const History& history, std::int64_t step) {
  LossTrend trend;
  NewestLosses newest = newest_losses(history, step, kTrendSpan + kTrendWindow);
  std::vector<StepLoss>& losses = newest.losses;
  trend.steps = std::ssize(losses);
  if (losses.empty()) return trend;
  trend.newest_step = losses.back().step;
  if (losses.back().is_lost) {
    trend.direction = LossTrend::lost;
    return trend;
  }
  if (newest.unlogged >= std::max(kTrendLeastUnlogged, kTrendUnloggedTimes * newest.most_unlogged)) {
    trend.direction = LossTrend::unlogged;
    return trend;
  }
  std::erase_if(losses, [](const StepLoss& loss) { return loss.is_lost; });  // steps that were skipped
  const auto have = std::ssize(losses);
  if (have < kTrendLeastSteps) return trend;
  const std::int64_t distance = have >= kTrendSpan + kTrendWindow ? kTrendSpan : have / 4;
  const std::size_t window = std::min(kTrendWindow, distance);
  trend.window = static_cast<std::int64_t>(window);
  trend.span = losses.back().step - losses[losses.size() - 1 - distance].step;
  const std::span<const StepLoss> all(losses);
  const TypicalLoss latest = typical(all.last(window));
  const TypicalLoss before = typical(all.first(all.size() - distance).last(window));
  const double fall = before.value - latest.value, noise = kTrendErrors * std::hypot(latest.error, before.error);
  trend.direction = LossTrend::flat;
  if (fall < -noise) trend.direction = LossTrend::rising;
  if (fall > noise) trend.direction = LossTrend::falling;
  if (latest.value == 0 && latest.error == 0) trend.direction = LossTrend::zero;
  trend.change = trend.direction == LossTrend::flat ? noise : std::abs(fall);
  return trend;
}

}  // namespace moescope
