#include "core/telemetry/findings/recent_load.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/telemetry/frame/router_stats.h"
#include "core/telemetry/history/finite_mean.h"

namespace moescope {

namespace {

// Rounded down to three significant bits: the expectation by chance hardly changes and need not be recomputed.
std::int64_t rounded_down(double tokens) {
  if (tokens < 16) return static_cast<std::int64_t>(tokens);
  const double step = std::exp2(std::floor(std::log2(tokens)) - 2);
  return static_cast<std::int64_t>(std::floor(tokens / step) * step);
}

}  // namespace

RecentLoad::RecentLoad(int layer, const RunInfo& info, const StepAxis& axis)
    : axis_(&axis),
      layer_(layer),
      run_(info.run),
      n_experts_(info.n_experts),
      top_k_(std::max(1, info.top_k)),
      tokens_per_step_(info.tokens_per_step),
      living_(info.n_experts),
      rows_(static_cast<std::size_t>(n_experts_ * kMeanSteps), std::nanf("")),
      sums_(static_cast<std::size_t>(n_experts_) * kMeanBlocks),
      mean_(static_cast<std::size_t>(n_experts_), 1.0f) {}

void RecentLoad::add(std::int64_t first, std::span<const float> utilisation, std::span<const float> max_vio,
                     std::span<const std::uint8_t> killed) {
  if (first_read_ < 0) first_read_ = first;
  last_step_ = first + std::ssize(max_vio) - 1;
  killed_.assign(killed.begin(), killed.end());
  living_ = n_experts_ - static_cast<int>(std::ranges::count(killed_, std::uint8_t{1}));
  max_vio_.push_back(static_cast<float>(mean_of_finite(max_vio)));
  if (max_vio_.size() > kMeanBlocks) max_vio_.pop_front();
  const std::vector<float> recent(max_vio_.begin(), max_vio_.end());
  mean_max_vio_ = mean_of_finite(recent);
  add_to_mean(utilisation);
  ++blocks_;
  completes_window_ = std::ssize(max_vio) == FindingsScan::kBlock && blocks_ % kMeanBlocks == 0;
  if (!no_load_) update_chance();
}

void RecentLoad::add_to_mean(std::span<const float> utilisation) {
  constexpr auto kBlock = static_cast<std::size_t>(FindingsScan::kBlock);
  const auto n = static_cast<std::size_t>(n_experts_);
  const auto slot = static_cast<std::size_t>(blocks_ % kMeanBlocks);
  float* sums = sums_.data() + slot * n;
  std::fill_n(sums, n, 0.0f);
  counts_[slot] = 0;
  inverse_slots_[slot] = 0;
  const auto kept = rows_.begin() + static_cast<std::ptrdiff_t>(slot * kBlock * n);
  std::fill_n(std::ranges::copy(utilisation, kept).out, kBlock * n - utilisation.size(), std::nanf(""));
  for (std::size_t s = 0; s < utilisation.size() / n; ++s) {
    const std::span<const float> row = utilisation.subspan(s * n, n);
    if (std::isnan(row[0])) continue;
    ++counts_[slot];
    inverse_slots_[slot] += 1 / slots(row);
    for (std::size_t e = 0; e < n; ++e) sums[e] += row[e];
  }
  const int rows = std::accumulate(counts_.begin(), counts_.end(), 0);
  if (rows == 0) return;
  no_load_ = false;
  for (std::size_t e = 0; e < n; ++e) {
    float sum = 0;
    for (std::size_t b = 0; b < kMeanBlocks; ++b) sum += sums_[b * n + e];
    mean_[e] = sum / static_cast<float>(rows);
  }
}

void RecentLoad::update_chance() {
  const std::int64_t tokens = rounded_down(this->tokens());
  if (chance_.tokens == tokens && chance_.experts == living_) return;
  chance_ = {tokens, living_, std::exp(load_entropy_by_chance(tokens, top_k_, living_)),
             static_cast<double>(max_vio_noise_floor(tokens, top_k_, living_))};
}

std::int64_t RecentLoad::first_step() const {
  return std::max(first_read_, last_step_ - kMeanSteps + 1);
}

int RecentLoad::fullest() const {
  return static_cast<int>(std::ranges::max_element(mean_) - mean_.begin());
}

double RecentLoad::share(std::size_t expert) const {
  const double of_living = static_cast<double>(living_) / n_experts_;
  return static_cast<double>(mean_[expert]) * of_living;
}

double RecentLoad::fullest_share() const {
  return share(static_cast<std::size_t>(fullest()));
}

std::span<const float> RecentLoad::row(std::int64_t s) const {
  const auto n = static_cast<std::size_t>(n_experts_);
  const std::int64_t oldest = blocks_ % kMeanBlocks * FindingsScan::kBlock;
  return std::span(rows_).subspan(static_cast<std::size_t>((oldest + s) % kMeanSteps) * n, n);
}

// Where T is not known, the least number that can give these shares, which is exact if some expert got a single token.
double RecentLoad::slots(std::span<const float> row) const {
  if (tokens_per_step_ > 0) return static_cast<double>(tokens_per_step_) * top_k_;
  float least = std::numeric_limits<float>::infinity();
  for (const float u : row)
    if (u > 0) least = std::min(least, u);
  return std::max<double>(top_k_, static_cast<double>(row.size()) / static_cast<double>(least));
}

double RecentLoad::tokens() const {
  const int rows = std::accumulate(counts_.begin(), counts_.end(), 0);
  const double inverse = std::accumulate(inverse_slots_.begin(), inverse_slots_.end(), 0.0);
  return inverse > 0 ? static_cast<double>(rows) * rows / inverse / top_k_ : 0;
}

void RecentLoad::follow(bool begins, bool ends, std::int64_t& since) const {
  if (since < 0 && begins) since = first_step();
  if (since >= 0 && ends) since = -1;
}

Finding RecentLoad::finding(FindingKind kind, Severity severity, StepRange steps, bool ongoing) const {
  Finding finding;
  finding.kind = kind;
  finding.severity = severity;
  finding.run = run_;
  finding.layers = {layer_};
  finding.steps = steps;
  finding.ongoing = ongoing;
  finding.knobs = {"router.bias_update_rate", "router.aux_coeff"};
  finding.metric = FigureKey("utilisation");
  finding.title = "Layer " + std::to_string(layer_);
  return finding;
}

}  // namespace moescope
