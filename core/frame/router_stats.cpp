#include "core/frame/router_stats.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

namespace moescope {
namespace {

template <class Count>
std::uint64_t total(std::span<const Count> counts) {
  std::uint64_t sum = 0;
  for (const Count n : counts) sum += n;
  return sum;
}

// Returns n ln n for the first n. Counts are close together, so that the processor's cache holds nearly all entries
// that are used.
std::span<const double> times_ln_table() {
  static const std::vector<double> kTable = [] {
    std::vector<double> table(std::size_t{1} << 16);
    for (std::size_t n = 1; n < table.size(); ++n) table[n] = n * std::log(n);
    return table;
  }();
  return kTable;
}

float max_vio_of(double largest, std::size_t experts, std::uint64_t sum) {
  return static_cast<float>(largest * experts / sum - 1);
}

template <class Count>
float max_vio_of(std::span<const Count> counts) {
  std::uint64_t sum = 0;
  Count largest = 0;
  for (const Count n : counts) {
    sum += n;
    largest = std::max(largest, n);
  }
  return sum ? max_vio_of(static_cast<double>(largest), counts.size(), sum) : kNoValue;
}

float entropy_norm_of(double n_ln_n, std::size_t experts, std::uint64_t sum) {
  if (experts == 1) return 1;
  const double s = sum;
  const double entropy = std::log(s) - n_ln_n / s;  // -sum (n/s) ln (n/s)
  return static_cast<float>(std::clamp(entropy / std::log(experts), 0.0, 1.0));
}

// Four figures of a load that are computed together, in the time of one. `alignment` must be a power of two.
struct LoadFigures {
  float max_vio = kNoValue, cv = kNoValue, entropy_norm = kNoValue, padding_fraction = kNoValue;
};
LoadFigures load_figures(std::span<const std::uint32_t> counts, std::uint32_t alignment) {
  assert(std::has_single_bit(alignment));
  std::uint64_t sum = 0, padding = 0;
  std::uint32_t largest = 0;
  for (const std::uint32_t n : counts) {
    sum += n;
    largest = std::max(largest, n);
    padding += -n & (alignment - 1);
  }
  if (sum == 0) return {};
  const double experts = counts.size();
  const double mean = sum / experts;
  double squares = 0, n_ln_n = 0;
  const auto add_up = [&](auto n_ln_n_of) {
    for (const std::uint32_t n : counts) {
      squares += (n - mean) * (n - mean);
      n_ln_n += n_ln_n_of(n);
    }
  };
  const std::span<const double> table = times_ln_table();
  if (largest < table.size())  // the usual loop, which calls no function
    add_up([&](std::uint32_t n) { return table[n]; });
  else
    add_up([&](std::uint32_t n) { return n < table.size() ? table[n] : n * std::log(n); });
  return {max_vio_of(largest, counts.size(), sum), static_cast<float>(std::sqrt(squares / experts) / mean),
          entropy_norm_of(n_ln_n, counts.size(), sum), static_cast<float>(padding / static_cast<double>(sum))};
}

float per_token(const std::vector<std::uint32_t>& copies, std::int64_t tokens) {
  if (copies.empty() || tokens <= 0) return kNoValue;
  const std::uint64_t sum = std::accumulate(copies.begin(), copies.end(), std::uint64_t{0});
  return static_cast<float>(sum / static_cast<double>(tokens));
}

// Standard: every copy to another node crosses the network. DeepEP: only one copy per destination node does.
double copies_across_nodes(const VolumeFrame& volume, bool deduplicated) {
  double count = 0;
  const int ranks = volume.ranks, per_node = std::max(1, volume.ranks_per_node);
  const int nodes = (ranks + per_node - 1) / per_node;
  for (int s = 0; s < ranks; ++s) {
    if (deduplicated && !volume.nodes_RN.empty()) {
      for (int n = 0; n < nodes; ++n)
        if (n != s / per_node) count += volume.nodes_RN[s * nodes + n];
    } else {
      for (int d = 0; d < ranks; ++d)
        if (d / per_node != s / per_node) count += volume.copies_RR[s * ranks + d];
    }
  }
  return count;
}

}  // namespace

float utilisation(std::span<const std::uint32_t> counts, std::size_t expert) {
  const std::uint64_t sum = total(counts);
  if (sum == 0) return kNoValue;
  return static_cast<float>(counts[expert] * static_cast<double>(counts.size()) / sum);
}

float max_vio(std::span<const std::uint32_t> counts) {
  return max_vio_of(counts);
}
float max_vio(std::span<const std::uint64_t> counts) {
  return max_vio_of(counts);
}

float mean_max_vio(const RoutedIds& routed, int parts) {
  const std::size_t ids_per_part = routed.ids_TK.size() / parts;
  std::vector<std::uint32_t> counts(routed.n_experts);
  double sum = 0;
  int counted = 0;
  for (std::size_t part = 0; part < static_cast<std::size_t>(parts); ++part) {
    std::ranges::fill(counts, 0u);
    for (std::size_t i = part * ids_per_part; i < (part + 1) * ids_per_part; ++i)
      if (routed.ids_TK[i] >= 0 && (routed.padding_T.empty() || !routed.padding_T[i / routed.top_k]))
        ++counts[routed.ids_TK[i]];
    const float part_max_vio = max_vio(std::span<const std::uint32_t>(counts));
    if (is_missing(part_max_vio)) continue;
    sum += part_max_vio;
    ++counted;
  }
  return counted > 0 ? static_cast<float>(sum / counted) : kNoValue;
}

float entropy_norm(std::span<const std::uint32_t> counts) {
  return load_figures(counts, 1).entropy_norm;
}

float dead_fraction(std::span<const std::uint64_t> counts) {
  // Mostly there is none, which find() sees faster than count() and std::ranges::find().
  const auto first = std::find(counts.begin(), counts.end(), std::uint64_t{0});
  const auto dead = std::count(first, counts.end(), std::uint64_t{0});
  if (dead == std::ssize(counts)) return kNoValue;
  return static_cast<float>(dead) / counts.size();
}

float padding_fraction(std::span<const std::uint32_t> counts, std::uint32_t alignment) {
  return load_figures(counts, alignment).padding_fraction;
}

namespace {

// Returns the sum over experts of max(0, beyond(n_e, capacity)), divided by the number of copies.
template <class Beyond>
float against_capacity(std::span<const std::uint32_t> counts, double capacity_factor, Beyond beyond) {
  const std::uint64_t sum = total(counts);
  if (sum == 0 || !(capacity_factor > 0)) return kNoValue;
  const double capacity = std::ceil(capacity_factor * sum / counts.size());
  double rows = 0;
  for (const std::uint32_t n : counts) rows += std::max(0.0, beyond(n, capacity));
  return static_cast<float>(rows / sum);
}

}  // namespace

float dropped_fraction(std::span<const std::uint32_t> counts, double capacity_factor) {
  return against_capacity(counts, capacity_factor, [](double n, double capacity) { return n - capacity; });
}

float filler_fraction(std::span<const std::uint32_t> counts, double capacity_factor) {
  return against_capacity(counts, capacity_factor, [](double n, double capacity) { return capacity - n; });
}

float percentile(std::vector<float> values, double q) {
  std::erase_if(values, [](float value) { return !std::isfinite(value); });
  if (values.empty()) return kNoValue;
  const double place = q * (values.size() - 1);
  const auto below = values.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(values.begin(), below, values.end());
  if (below + 1 == values.end()) return *below;
  const float above = *std::min_element(below + 1, values.end());
  return static_cast<float>(*below + (place - std::floor(place)) * (above - *below));
}

namespace {

bool can_choose(std::int64_t tokens, int top_k, int n_experts) {
  return tokens > 0 && top_k > 0 && n_experts > 1 && top_k <= n_experts;
}

// Calls visit(m, P(m)) for rising m = n_e of Binomial(T, K / E), K < E, where P is representable in double precision:
// mean +- 12 deviations, and some more for skew at small means. Returns the first m.
template <class Visit>
double visit_counts(std::int64_t tokens, int top_k, int n_experts, Visit visit) {
  const double t = tokens;
  const double p = static_cast<double>(top_k) / n_experts;
  const double mean = t * p;
  const double deviation = std::sqrt(mean * (1 - p));
  const double first = std::max(0.0, std::floor(mean - 12 * deviation - 1));
  const double last = std::min(t, std::ceil(mean + 12 * deviation + 40));
  const double ln_odds = std::log(p) - std::log1p(-p);
  double ln_pmf = std::lgamma(t + 1) - std::lgamma(first + 1) - std::lgamma(t - first + 1) + first * std::log(p) +
                  (t - first) * std::log1p(-p);
  for (double m = first; m <= last; ++m) {
    visit(m, std::exp(ln_pmf));
    ln_pmf += std::log((t - m) / (m + 1)) + ln_odds;
  }
  return first;
}

}  // namespace

float max_vio_noise_floor(std::int64_t tokens, int top_k, int n_experts) {
  if (!can_choose(tokens, top_k, n_experts)) return kNoValue;
  if (top_k == n_experts) return 0;
  const double mean = static_cast<double>(tokens) * top_k / n_experts;
  double cdf = 0;
  double above_first = 0;
  const double first = visit_counts(tokens, top_k, n_experts, [&](double, double pmf) {
    cdf = std::min(1.0, cdf + pmf);
    above_first += 1 - std::pow(cdf, n_experts);
  });
  const double excess = std::max(0.0, first + above_first - mean);
  return static_cast<float>(std::sqrt(n_experts / (n_experts - 1.0)) * excess / mean);
}

double chance_max_vio(const RunInfo& info, int steps) {
  if (info.tokens_per_step <= 0 || info.top_k <= 0 || info.n_experts <= 1 || steps <= 0) return std::nan("");
  return max_vio_noise_floor(info.tokens_per_step * steps, info.top_k, info.n_experts);
}

float utilisation_noise(std::int64_t tokens, int top_k, int n_experts) {
  if (!can_choose(tokens, top_k, n_experts)) return kNoValue;
  const double p = static_cast<double>(top_k) / n_experts;
  return static_cast<float>(std::sqrt((1 - p) / (tokens * p)));
}

double load_entropy_by_chance(std::int64_t tokens, int top_k, int n_experts) {
  if (!can_choose(tokens, top_k, n_experts)) return std::numeric_limits<double>::quiet_NaN();
  if (top_k == n_experts) return std::log(n_experts);
  double n_ln_n = 0;
  visit_counts(tokens, top_k, n_experts, [&](double m, double pmf) {
    if (m > 1) n_ln_n += pmf * m * std::log(m);
  });
  const double slots = static_cast<double>(tokens) * top_k;
  return std::log(slots) - n_experts * n_ln_n / slots;
}

float score_entropy(std::span<const float> scores_E) {
  float sum = 0;
  float s_ln_s = 0;
  for (const float s : scores_E) {
    sum += s;
    s_ln_s += s > 0 ? s * std::log(s) : 0.0f;
  }
  return sum > 0 ? std::max(0.0f, std::log(sum) - s_ln_s / sum) : kNoValue;
}

float mutual_information(std::span<const float> score_mass_E, float mean_score_entropy) {
  if (score_mass_E.empty() || !std::isfinite(mean_score_entropy)) return kNoValue;
  return std::max(0.0f, score_entropy(score_mass_E) - mean_score_entropy);
}

LoadWindow::LoadWindow(int n_experts, int window)
    : n_experts_(n_experts), window_(std::max(window, 1)), ring_(n_experts_ * window_), sums_(n_experts_) {}

void LoadWindow::push(std::span<const std::uint32_t> counts) {
  assert(counts.size() == n_experts_);
  std::uint32_t* const row = ring_.data() + next_ * n_experts_;
  std::uint64_t* const sums = sums_.data();
  for (std::size_t e = 0; e < counts.size(); ++e) {
    sums[e] += counts[e] - std::uint64_t{row[e]};  // zero until the ring is full
    row[e] = counts[e];
  }
  next_ = (next_ + 1) % window_;
  filled_ = std::min(filled_ + 1, window_);
}

std::span<const std::uint32_t> LoadWindow::step(int i) const {
  assert(i >= 0 && i < filled_);
  const int row = (next_ - filled_ + i + window_) % window_;
  return {ring_.data() + row * n_experts_, n_experts_};
}

void fill_derived_figures(RouterFrame& router, const LoadWindow& window) {
  constexpr std::uint32_t kPaddedRows = 32;
  const auto fill = [](float& value, float computed) {
    if (is_missing(value)) value = computed;
  };
  const LoadFigures figures = load_figures(router.tokens_per_expert, kPaddedRows);
  fill(router.max_vio, figures.max_vio);
  fill(router.cv, figures.cv);
  fill(router.entropy_norm, figures.entropy_norm);
  fill(router.padding_fraction, figures.padding_fraction);
  fill(router.max_vio_window, max_vio(window.counts()));
  fill(router.dead_fraction, dead_fraction(window.counts()));
  fill(router.mutual_information, mutual_information(router.score_mass, router.score_entropy));
}

float ranks_per_token(const VolumeFrame& volume, std::int64_t tokens) {
  return per_token(volume.distinct_RR, tokens);
}

float nodes_per_token(const VolumeFrame& volume, std::int64_t tokens) {
  return per_token(volume.nodes_RN, tokens);
}

std::vector<std::uint64_t> received_by_rank(std::span<const std::uint32_t> copies_RR, int ranks) {
  std::vector<std::uint64_t> received(ranks);
  for (std::size_t i = 0; i < copies_RR.size(); ++i) received[i % received.size()] += copies_RR[i];
  return received;
}

float rank_overload(const VolumeFrame& volume) {
  const std::vector<std::uint64_t> received = received_by_rank(volume.copies_RR, volume.ranks);
  const double sum = std::accumulate(received.begin(), received.end(), 0.0);
  if (sum == 0) return kNoValue;
  const double largest = *std::ranges::max_element(received);
  return static_cast<float>(largest * volume.ranks / sum);
}

DispatchTotals dispatch_totals(const VolumeFrame& volume, bool deduplicated) {
  const auto& copies = deduplicated ? volume.distinct_RR : volume.copies_RR;
  const std::size_t ranks = volume.ranks;
  std::vector<double> received(ranks, 0);
  DispatchTotals totals;
  for (std::size_t s = 0; s < ranks; ++s)
    for (std::size_t d = 0; d < ranks; ++d) {
      received[d] += copies[s * ranks + d];
      if (s != d) totals.moved += copies[s * ranks + d];
    }
  totals.across_nodes = copies_across_nodes(volume, deduplicated);
  for (const double copies_to : received) {
    totals.fullest = std::max(totals.fullest, copies_to);
    totals.received += copies_to;
  }
  if (totals.received > 0) totals.max_over_mean = totals.fullest * ranks / totals.received;
  return totals;
}

double saved_by_deepep(const VolumeFrame& volume) {
  const double standard = copies_across_nodes(volume, false);
  return standard > 0 ? 1 - copies_across_nodes(volume, true) / standard : static_cast<double>(kNoValue);
}

}  // namespace moescope
