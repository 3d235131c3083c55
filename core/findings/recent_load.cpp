#include "core/findings/recent_load.h"

#include <fmt/core.h>

#include <cmath>
#include <set>
#include <utility>

#include "core/files/text/no_value.h"
#include "core/files/text/words.h"
#include "core/frame/router_stats.h"

namespace moescope {
namespace {

// Rounds a number of tokens down to three significant bits, so that the value of chance, which hardly changes with it,
// is rarely recomputed.
std::int64_t rounded_down(double tokens) {
  tokens *= 1 + 1e-12;  // a sum of reciprocals may be a little too large
  if (tokens < 16) return static_cast<std::int64_t>(tokens);
  const double step = std::exp2(std::floor(std::log2(tokens)) - 2);
  return static_cast<std::int64_t>(std::floor(tokens / step) * step);
}

// True if neighbouring experts are on one rank, as far as the run says.
bool are_in_order(const RunInfo& info) {
  return info.config_toml.find("placement = ") == info.config_toml.find("placement = \"contiguous\"");
}

}  // namespace

RecentLoad::RecentLoad(int layer, const RunInfo& info, const StepAxis& axis)
    : axis_(&axis),
      origin_(run_origin(info)),
      layer_(layer),
      run_(info.run),
      n_experts_(info.n_experts),
      top_k_(std::max(1, info.top_k)),
      ranks_(are_in_order(info) ? info.ranks : 0),
      living_(info.n_experts),
      mean_(n_experts_, 1.0f) {}

std::string RecentLoad::on_ranks(std::span<const int> experts) const {
  if (ranks_ < 2 || n_experts_ % ranks_ != 0) return {};
  std::set<int> on;
  for (const int expert : experts) on.insert(expert / (n_experts_ / ranks_));
  const std::vector<int> ranks(on.begin(), on.end());
  if (std::ssize(ranks) == ranks_) return {};
  return fmt::format("{}{} at EP {}", ranks.size() == 1 ? " on rank " : " on ranks ", listed(ranks), ranks_);
}

void RecentLoad::pass(StepRange steps, std::span<const std::uint8_t> killed) {
  if (first_read_ < 0) first_read_ = steps.first;
  last_step_ = steps.last;
  killed_.assign(killed.begin(), killed.end());
  living_ = n_experts_ - to_int(std::ranges::count(killed_, std::uint8_t{1}));
  is_new_ = completes_window_ = false;
}

void RecentLoad::add(const LoadBlock& block, std::span<const std::uint8_t> killed) {
  pass({block.first, block.first + std::ssize(block.max_vio) - 1}, killed);
  const std::size_t n = n_experts_;
  KeptBlock fresh;
  fresh.max_vios.assign(block.max_vio.begin(), block.max_vio.end());
  has_loss_ = has_loss_ || !std::isnan(mean_of_finite(block.losses));
  fresh.sums.resize(n);
  for (std::size_t s = 0; s < block.utilisation.size() / n; ++s) {
    const std::span<const float> row = block.utilisation.subspan(s * n, n);
    if (std::isnan(row[0])) continue;
    last_load_ = block.first + static_cast<std::int64_t>(s);
    fresh.positions.push_back(last_load_);
    fresh.utilisation.insert(fresh.utilisation.end(), row.begin(), row.end());
    fresh.load_slots.push_back(std::max<double>(top_k_, static_cast<double>(block.assignments[s])));
    slots_ += fresh.load_slots.back();
    for (std::size_t e = 0; e < n; ++e) fresh.sums[e] += row[e];
  }
  is_new_ = fresh.loads() > 0;
  if (!is_new_) return;
  if (loads_ == 0) first_load_ = fresh.positions.front();
  loads_ += fresh.loads();
  if (std::ssize(block.max_vio) < FindingsScan::kBlock && blocks_ >= kMeanBlocks) keep_rest_of_oldest(fresh);
  ring_[blocks_ % kMeanBlocks] = std::move(fresh);
  ++blocks_;
  completes_window_ = std::ssize(block.max_vio) == FindingsScan::kBlock && blocks_ % kMeanBlocks == 0;
  update_means();
  update_chance();
}

// Before a short block, which replaces the oldest one: puts the last loads of the oldest one before those of the next,
// so that the window keeps its length.
void RecentLoad::keep_rest_of_oldest(const KeptBlock& fresh) {
  KeptBlock oldest = std::move(ring_[blocks_ % kMeanBlocks]);
  KeptBlock& next = ring_[(blocks_ + 1) % kMeanBlocks];
  const std::size_t left_out = std::min(oldest.loads(), fresh.loads());
  const auto prepend = [](auto& next_values, const auto& values, std::size_t from) {
    next_values.insert(next_values.begin(), values.begin() + static_cast<std::ptrdiff_t>(from), values.end());
  };
  prepend(next.positions, oldest.positions, left_out);
  prepend(next.load_slots, oldest.load_slots, left_out);
  prepend(next.utilisation, oldest.utilisation, left_out * mean_.size());
  prepend(next.max_vios, oldest.max_vios, std::min(oldest.max_vios.size(), fresh.max_vios.size()));
  for (std::size_t e = 0; e < mean_.size(); ++e)
    for (std::size_t i = left_out * mean_.size(); i < oldest.utilisation.size(); i += mean_.size())
      next.sums[e] += oldest.utilisation[i + e];
}

void RecentLoad::update_means() {
  const auto blocks = std::span(ring_).first(blocks_in_window());
  std::ranges::fill(mean_, 0.0f);
  std::vector<float> max_vios;
  for (const KeptBlock& block : blocks) {
    for (std::size_t e = 0; e < mean_.size(); ++e) mean_[e] += block.sums[e];
    max_vios.insert(max_vios.end(), block.max_vios.begin(), block.max_vios.end());
  }
  const auto loads = static_cast<float>(loads_in_window());
  for (float& mean : mean_) mean /= loads;
  mean_max_vio_ = (mean_of_finite(max_vios) + 1) * living_ / n_experts_ - 1;
}

void RecentLoad::update_chance() {
  const double loads = loads_in_window();
  const std::int64_t tokens = rounded_down(this->tokens()), batch = rounded_down(this->tokens() / loads);
  if (chance_.tokens == tokens && chance_.batch_tokens == batch && chance_.experts == living_) return;
  const auto floor = [&](std::int64_t slots) {
    const float value = max_vio_noise_floor(slots, top_k_, living_);
    return is_missing(value) ? 0.0 : static_cast<double>(value);
  };
  chance_ = {tokens,        batch,       living_, std::exp(load_entropy_by_chance(tokens, top_k_, living_)),
             floor(tokens), floor(batch)};
}

int RecentLoad::loads_in_window() const {
  int loads = 0;
  for (int b = 0; b < blocks_in_window(); ++b) loads += ring_[b].loads();
  return loads;
}

double RecentLoad::share(std::size_t expert) const {
  const double living_fraction = static_cast<double>(living_) / n_experts_;
  return mean_[expert] * living_fraction;
}

double RecentLoad::tokens() const {
  double inverse = 0;
  for (int b = 0; b < blocks_in_window(); ++b)
    for (const double load_slots : ring_[b].load_slots) inverse += 1 / load_slots;
  const double loads = loads_in_window();
  return inverse > 0 ? loads * loads / inverse / top_k_ : 0;
}

void RecentLoad::follow(bool begins, bool ends, ConditionStart& start) const {
  if (!start.goes_on() && begins) {
    double sum = 0;
    for (int b = 0; b < blocks_in_window(); ++b)
      for (int i = 0; i < block_of_window(b).loads(); ++i) sum += std::ranges::max(row(block_of_window(b), i));
    const double half_height = (1 + sum / loads_in_window()) / 2;
    start = first_load_where(
        [half_height](std::span<const float> utilisation) { return std::ranges::max(utilisation) >= half_height; });
  }
  if (start.goes_on() && ends) start = {};
}

std::string RecentLoad::seen_text(const LoadSpan& span) const {
  return are_totals() ? "in " + totals_text(span.loads, slots_ / top_k_ / loads_ * span.loads)
                      : "for " + loads_text(span);
}

Finding RecentLoad::finding(FindingKind kind, std::int64_t first_step) const {
  Finding finding = layer_finding(kind, run_, layer_, {first_step, last_step_});
  finding.knobs = {&RouterConfig::bias_update_rate, &RouterConfig::aux_coeff};
  return finding;
}

}  // namespace moescope
