#include "core/model/moe/router_sums.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/frame/router_stats.h"
#include "core/frame/specialisation.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr std::size_t kSummedTokens = 128;

using WideHalfOctaves = std::array<std::uint32_t, kWideHalfOctaves>;

struct SliceSums {
  std::vector<double> score_mass, gate_mass;
  double entropy = 0, margin = 0;
  std::size_t tokens = 0;  // without padding
  WideHalfOctaves scores{}, chosen{}, margins{};
};

int score_bins(const RouterConfig& config) {
  return config.score_func == ScoreFunc::sqrtsoftplus ? kWideHalfOctaves : kHalfOctaves;
}

int margin_bins(const RouterConfig& config) {
  return config.balance_rule == BalanceRule::quantile_microbatch ? kWideHalfOctaves : score_bins(config);
}

std::size_t bin_of(float value, int bins) {
  return half_octave_bin(value, bins);
}

SliceSums sum_tokens(std::size_t first, std::size_t last, const RouterConfig& config,
                     const RouterActivations<float>& router) {
  const std::size_t experts = router.scores.cols;
  const std::size_t top_k = config.top_k;
  const int bins = score_bins(config);
  SliceSums sums{std::vector<double>(experts), std::vector<double>(experts)};
  for (std::size_t t = first; t < last; ++t) {
    if (is_set(router.padding, t)) continue;
    ++sums.tokens;
    const float* scores = router.scores.row(t);
    float total = 0;
    for (std::size_t e = 0; e < experts; ++e) total += scores[e];
    const float inv = total > 0 ? 1 / total : 0;
    for (std::size_t e = 0; e < experts; ++e) sums.score_mass[e] += scores[e] * inv;
    for (std::size_t e = 0; e < experts; ++e) ++sums.scores[bin_of(scores[e], bins)];
    for (std::size_t j = t * top_k; j < (t + 1) * top_k; ++j) {
      const std::size_t e = router.ids[j];
      sums.gate_mass[e] += router.mix.data[j];
      ++sums.chosen[bin_of(scores[e], bins)];
    }
    if (!std::isnan(router.margin[t])) ++sums.margins[bin_of(router.margin[t], margin_bins(config))];
    sums.entropy += score_entropy({scores, experts});
    sums.margin += router.margin[t];
  }
  return sums;
}

}  // namespace

std::vector<float> biases_for_shares(const RouterConfig& config, const RouterActivations<float>& router) {
  const Matrix<const float> judged = router.judged(config);
  const std::size_t experts = judged.cols, tokens = judged.rows;
  const std::span<const float> cutoffs = router.cutoff;
  if (tokens < 2 || std::ranges::any_of(cutoffs, [](float cutoff) { return std::isnan(cutoff); })) return {};
  const auto shares = bias_shares(config.top_k, to_int(experts));
  std::vector<float> biases(experts * kBiasShares);
  parallel_for(to_int(experts), [&](int e) {
    std::vector<float> missing_scores(tokens);
    for (std::size_t t = 0; t < tokens; ++t) missing_scores[t] = cutoffs[t] - judged.row(t)[e];
    std::ranges::sort(missing_scores);
    for (std::size_t q = 0; q < kBiasShares; ++q) {
      const double place = shares[q] * (tokens - 1);
      const auto below = std::min(static_cast<std::size_t>(place), tokens - 2);
      biases[e * kBiasShares + q] =
          static_cast<float>(std::lerp(missing_scores[below], missing_scores[below + 1], place - below));
    }
  });
  return biases;
}

RouterFrame sum_router(const RouterConfig& config, const RouterActivations<float>& router) {
  const std::size_t experts = router.scores.cols, tokens = router.scores.rows;
  std::vector<SliceSums> slices((tokens + kSummedTokens - 1) / kSummedTokens);
  parallel_slices(tokens, kSummedTokens, [&](std::size_t first, std::size_t last) {
    slices[first / kSummedTokens] = sum_tokens(first, last, config, router);
  });
  SliceSums total{std::vector<double>(experts), std::vector<double>(experts)};
  for (const SliceSums& slice : slices) {
    for (std::size_t e = 0; e < experts; ++e) {
      total.score_mass[e] += slice.score_mass[e];
      total.gate_mass[e] += slice.gate_mass[e];
    }
    for (std::size_t b = 0; b < kWideHalfOctaves; ++b) {
      total.scores[b] += slice.scores[b];
      total.chosen[b] += slice.chosen[b];
      total.margins[b] += slice.margins[b];
    }
    total.tokens += slice.tokens;
    total.entropy += slice.entropy;
    total.margin += slice.margin;
  }
  double mixed = 0;
  for (const double mass : total.gate_mass) mixed += mass;
  RouterFrame sums;
  for (std::size_t e = 0; e < experts; ++e) {
    sums.score_mass.push_back(static_cast<float>(total.score_mass[e] / total.tokens));
    sums.gate_mass.push_back(static_cast<float>(mixed > 0 ? total.gate_mass[e] / mixed : 0));
  }
  sums.score_entropy = static_cast<float>(total.entropy / total.tokens);
  sums.margin = static_cast<float>(total.margin / total.tokens);
  if (std::isnan(sums.margin) && std::isfinite(sums.score_entropy)) sums.margin = kNoValue;
  sums.score_chosen.assign(total.chosen.begin(), total.chosen.begin() + score_bins(config));
  for (std::size_t b = 0; b < sums.score_chosen.size(); ++b)
    sums.score_rejected.push_back(total.scores[b] - total.chosen[b]);
  sums.margin_tokens.assign(total.margins.begin(), total.margins.begin() + margin_bins(config));
  return sums;
}

}  // namespace moescope
