#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/findings/oscillation_watch.h"
#include "core/numerics/statistics.h"

namespace moescope {
namespace {

constexpr double kNearState = 0.4;     // farthest distance from a state, as a share of the state
constexpr double kInAState = 0.75;     // share of the rows that are near a state; of a sine's values 0.4 to 0.7 are
constexpr double kRowsInAState = 2.5;  // mean number of successive rows
constexpr double kUnevenMean = 0.4;    // spread of the mean load, as a share of the rows' deviations from it
constexpr double kMinLossCorrelation = 0.6;  // correlation of loss and load
constexpr int kIterations = 12;              // of the power iteration

// Projections of the rows' deviations on the direction in which they vary most, [n].
std::vector<double> main_component(std::span<const float> rows, std::span<const float> mean) {
  const std::size_t experts = mean.size(), n = rows.size() / experts;
  const auto deviation = [&](std::size_t i, std::size_t e) {
    return static_cast<double>(rows[i * experts + e] - mean[e]);
  };
  const auto square = [&](std::size_t i) {
    double sum = 0;
    for (std::size_t e = 0; e < experts; ++e) sum += deviation(i, e) * deviation(i, e);
    return sum;
  };
  std::vector<double> squares(n), direction(experts), component(n);
  for (std::size_t i = 0; i < n; ++i) squares[i] = square(i);
  const std::size_t start = std::ranges::max_element(squares) - squares.begin();
  for (std::size_t e = 0; e < experts; ++e) direction[e] = deviation(start, e);
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    double length = 0;
    for (const double d : direction) length += d * d;
    if (!(length > 0)) break;
    for (double& d : direction) d /= std::sqrt(length);
    for (std::size_t i = 0; i < n; ++i) {
      component[i] = 0;
      for (std::size_t e = 0; e < experts; ++e) component[i] += direction[e] * deviation(i, e);
    }
    std::ranges::fill(direction, 0.0);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t e = 0; e < experts; ++e) direction[e] += component[i] * deviation(i, e);
  }
  return component;
}

// Returns the mean of the values with this sign; 0 if there is none.
double state(std::span<const double> values, bool positive) {
  double sum = 0;
  int n = 0;
  for (const double value : values)
    if ((value > 0) == positive) {
      sum += value;
      ++n;
    }
  return n > 0 ? sum / n : 0;
}

bool has_two_states(std::span<const double> values) {
  const double high = state(values, true), low = state(values, false);
  std::size_t near = 0, changes = 1;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double own_state = values[i] > 0 ? high : low;
    near += std::fabs(values[i] - own_state) <= kNearState * std::fabs(own_state);
    changes += i > 0 && (values[i] > 0) != (values[i - 1] > 0);
  }
  const double n = values.size();
  return near >= kInAState * n && n >= kRowsInAState * changes;
}

// Removes the straight line that fits best.
std::vector<double> without_trend(std::span<const float> values) {
  const double n = values.size();
  double mean = 0, product = 0, squares = 0;
  for (const float value : values) mean += value / n;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double at = i - (n - 1) / 2;
    product += at * values[i];
    squares += at * at;
  }
  std::vector<double> residuals;
  for (std::size_t i = 0; i < values.size(); ++i)
    residuals.push_back(values[i] - mean - (i - (n - 1) / 2) * product / squares);
  return residuals;
}

bool loss_follows(std::span<const double> component, std::span<const float> losses) {
  if (losses.size() != component.size() || losses.size() < 3) return false;
  if (!std::ranges::all_of(losses, [](float loss) { return std::isfinite(loss); })) return false;
  const std::vector<double> residuals = without_trend(losses);
  Correlation correlation;
  for (std::size_t i = 0; i < residuals.size(); ++i) correlation.add(residuals[i], component[i]);
  return std::fabs(correlation.value()) > kMinLossCorrelation;
}

bool is_uneven(std::span<const float> rows, std::span<const float> mean) {
  double variance_of_mean = 0, variance_of_rows = 0;
  for (const float u : mean) variance_of_mean += ((u - 1) * (u - 1)) / static_cast<double>(mean.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double deviation = rows[i] - mean[i % mean.size()];
    variance_of_rows += deviation * deviation / rows.size();
  }
  return variance_of_mean > kUnevenMean * kUnevenMean * variance_of_rows;
}

}  // namespace

std::vector<double> autocorrelations(std::span<const float> rows, std::span<const float> mean, int lags) {
  const std::size_t experts = mean.size(), n = rows.size() / experts;
  std::vector<double> products(static_cast<std::size_t>(lags) + 1);
  const auto product = [&](std::size_t s, std::size_t t) {
    float sum = 0;
    for (std::size_t e = 0; e < experts; ++e)
      sum += (rows[s * experts + e] - mean[e]) * (rows[t * experts + e] - mean[e]);
    return static_cast<double>(sum);
  };
  for (std::size_t lag = 0; lag < products.size(); ++lag) {
    for (std::size_t s = lag; s < n; ++s) products[lag] += product(s, s - lag);
    products[lag] /= n - lag;
  }
  const double variance = products[0];
  for (double& value : products) value = variance > 0 ? value / variance : 0;
  return products;
}

bool alternates_with_texts(std::span<const float> rows, std::span<const float> mean, std::span<const float> losses) {
  const std::vector<double> component = main_component(rows, mean);
  return has_two_states(component) || loss_follows(component, losses) || is_uneven(rows, mean);
}

}  // namespace moescope
