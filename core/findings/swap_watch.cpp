#include "core/findings/swap_watch.h"

#include <cmath>

#include "core/numerics/statistics.h"

namespace moescope {

namespace {

constexpr double kNewPart = 0.2;  // weight of the newest window in the moving mean
constexpr int kMinWindows = 3;    // windows with a swap before it is reported

double correlation_of(std::span<const float> a, std::span<const float> b) {
  Correlation correlation;  // both have the mean 1
  for (std::size_t e = 0; e < a.size(); ++e)
    correlation.add(static_cast<double>(a[e]) - 1, static_cast<double>(b[e]) - 1);
  const double value = correlation.value();
  return std::isnan(value) ? 0 : value;
}

double fisher_deviations(double correlation, std::size_t experts) {
  const double limited = std::min(correlation, 0.999);
  return std::atanh(limited) * std::sqrt(std::max(1.0, static_cast<double>(experts) - 3));
}

}  // namespace

SwapWatch::SwapWatch(std::span<const int> layers, int run, const StepAxis& axis)
    : axis_(&axis), layers_(layers.begin(), layers.end()), run_(run), patterns_(layers.size()) {}

bool SwapWatch::are_swapped(const LayerMeans& means, std::size_t a, std::size_t b) const {
  const Pattern &pattern_a = patterns_[a], &pattern_b = patterns_[b];
  if (means.shares[a].empty() || means.shares[b].empty()) return false;
  const double a_as_b = correlation_of(means.shares[a], pattern_b.before),
               b_as_a = correlation_of(means.shares[b], pattern_a.before);
  const std::size_t experts = pattern_a.before.size();
  return std::min(a_as_b, b_as_a) >= kSwappedCorrelation && a_as_b - pattern_a.newest >= kMinSwapGain &&
         b_as_a - pattern_b.newest >= kMinSwapGain &&
         (fisher_deviations(a_as_b, experts) + fisher_deviations(b_as_a, experts)) / std::sqrt(2.0) >= kSwapDeviations;
}

void SwapWatch::window(const LayerMeans& means, const LoadsOf& loads_of) {
  last_step_ = means.steps.last;
  for (std::size_t l = 0; l < means.shares.size(); ++l) {
    Pattern& pattern = patterns_[l];
    const bool both = !means.shares[l].empty() && !pattern.before.empty();
    pattern.newest = both ? correlation_of(means.shares[l], pattern.before) : pattern.stable;
  }
  find_swaps(means, loads_of);
  for (std::size_t l = 0; l < means.shares.size(); ++l)
    if (!means.shares[l].empty() && !is_in_a_swap(l)) patterns_[l].take(means.shares[l]);
}

void SwapWatch::Pattern::take(const std::vector<float>& shares) {
  if (before.empty()) {
    before = shares;
    return;
  }
  stable += kNewPart * (newest - stable);
  for (std::size_t e = 0; e < shares.size(); ++e) before[e] += static_cast<float>(kNewPart) * (shares[e] - before[e]);
}

void SwapWatch::find_swaps(const LayerMeans& means, const LoadsOf& loads_of) {
  std::erase_if(swaps_, [&](Swap& swap) {
    ++swap.windows;
    return !are_swapped(means, swap.a, swap.b);
  });
  std::vector<std::size_t> changed;  // layers that differ from their own earlier loads
  for (std::size_t l = 0; l < means.shares.size(); ++l)
    if (!means.shares[l].empty() && !patterns_[l].before.empty() && !is_in_a_swap(l) &&
        patterns_[l].newest < patterns_[l].stable - kMinSwapGain)
      changed.push_back(l);
  for (std::size_t i = 0; i < changed.size(); ++i)
    for (std::size_t j = i + 1; j < changed.size(); ++j) {
      const std::size_t a = changed[i], b = changed[j];
      if (is_in_a_swap(a) || is_in_a_swap(b) || !are_swapped(means, a, b)) continue;
      swaps_.push_back({a, b, first_load_of(a, b, means.steps, loads_of), 1});
    }
}

// Searches the window that shows the swap and the one before it, in which the swap may have begun. From the load on
// that is returned, the loads of both layers resemble the earlier load of the other one the most.
std::int64_t SwapWatch::first_load_of(std::size_t a, std::size_t b, StepRange window, const LoadsOf& loads_of) const {
  const StepRange searched{std::max<std::int64_t>(0, window.first - window.size()), window.last};
  const std::vector<float> loads_a = loads_of(layers_[a], searched), loads_b = loads_of(layers_[b], searched);
  const std::span<const float> before_a = patterns_[a].before, before_b = patterns_[b].before;
  const std::size_t experts = before_a.size();
  if (loads_a.size() != loads_b.size()) return window.first;
  std::int64_t first = window.first;
  double sum = 0, highest = 0;
  for (std::size_t i = loads_a.size() / experts; i-- > 0;) {
    const auto row_a = std::span(loads_a).subspan(i * experts, experts),
               row_b = std::span(loads_b).subspan(i * experts, experts);
    if (std::isnan(row_a[0]) || std::isnan(row_b[0])) continue;
    sum += correlation_of(row_a, before_b) - correlation_of(row_a, before_a) + correlation_of(row_b, before_a) -
           correlation_of(row_b, before_b);
    if (sum > highest) {
      highest = sum;
      first = searched.first + static_cast<std::int64_t>(i);
    }
  }
  return first;
}

void SwapWatch::findings(std::vector<Finding>& out) const {
  for (const Swap& swap : swaps_) {
    if (swap.windows < kMinWindows || axis_->step(last_step_) - axis_->step(swap.first_step) + 1 < kSwappedSteps)
      continue;
    Finding& finding = out.emplace_back(finding_of(FindingKind::swapped_layers, run_, {swap.first_step, last_step_}));
    finding.layers = {layers_[swap.a], layers_[swap.b]};
    const std::string a = std::to_string(layers_[swap.a]), b = std::to_string(layers_[swap.b]);
    finding.title = "Layers " + a + " and " + b + " have exchanged their loads";
    finding.brief = "the experts of layer " + a + " have the load that the experts of layer " + b +
                    " had before, and the other way round";
    finding.observation = "Since step " + axis_->name(swap.first_step) + " the experts of layer " + a +
                          " have the load that the experts of layer " + b +
                          " had before, and the other way round; neither load resembles the earlier load of its layer.";
    finding.meaning =
        "Routers do not exchange their preferences. More likely the log names its layers in another order, or a "
        "checkpoint was loaded with the weights of two layers exchanged.";
  }
}

}  // namespace moescope
