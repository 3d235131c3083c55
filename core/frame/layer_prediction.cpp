#include "core/frame/layer_prediction.h"

#include <algorithm>
#include <numeric>

#include "core/files/text/no_value.h"

namespace moescope {

LayerPrediction::LayerPrediction(int n_experts, int top_k, std::size_t max_predicted)
    : experts_(n_experts > kMaxExperts ? 0 : static_cast<std::size_t>(std::max(n_experts, 0))),
      top_k_(static_cast<std::size_t>(std::max(top_k, 1))),
      most_asked_(max_predicted),
      together_(experts_ * experts_),
      tokens_(experts_),
      score_(experts_),
      order_(experts_) {}

// Adds `by` to the counts; 2^32 - 1 subtracts one, modulo 2^32.
void LayerPrediction::teach(Row before_K, Row chosen_K, std::uint32_t by) {
  for (const std::uint16_t i : before_K) {
    if (i >= experts_) continue;
    tokens_[i] += by;
    for (const std::uint16_t j : chosen_K)
      if (j < experts_) together_[i * experts_ + j] += by;
  }
}

// Returns how many of the chosen experts are among the predicted ones.
std::size_t LayerPrediction::hits(Row before_K, Row chosen_K) {
  std::ranges::fill(score_, 0);
  for (const std::uint16_t i : before_K)
    for (std::size_t j = 0; i < experts_ && j < experts_ && tokens_[i] > 0; ++j)
      score_[j] += static_cast<double>(together_[i * experts_ + j]) / tokens_[i];
  std::iota(order_.begin(), order_.end(), std::uint16_t{0});
  const auto guessed = order_.begin() + static_cast<std::ptrdiff_t>(std::min(top_k_, experts_));
  std::ranges::partial_sort(order_, guessed, [&](std::uint16_t a, std::uint16_t b) {
    return score_[a] > score_[b] || (score_[a] == score_[b] && a < b);
  });
  return std::count_if(order_.begin(), guessed,
                       [&](std::uint16_t expert) { return std::ranges::find(chosen_K, expert) != chosen_K.end(); });
}

float LayerPrediction::share(std::span<const std::uint16_t> before_TK, std::span<const std::uint16_t> chosen_TK) {
  const std::size_t tokens = chosen_TK.size() / top_k_;
  if (experts_ == 0 || tokens < 2 || before_TK.size() != chosen_TK.size()) return kNoValue;
  const auto row = [&](Row layer_row, std::size_t token) { return layer_row.subspan(token * top_k_, top_k_); };
  const auto teach_all = [&](std::uint32_t by) {
    for (std::size_t t = 0; t < tokens; t += 2) teach(row(before_TK, t), row(chosen_TK, t), by);
  };
  teach_all(1);
  const std::size_t odd_tokens = tokens / 2, sampled_tokens = std::clamp<std::size_t>(most_asked_, 1, odd_tokens);
  std::size_t right = 0, chosen = 0;
  for (std::size_t i = 0; i < sampled_tokens; ++i) {
    const std::size_t t = 2 * (i * odd_tokens / sampled_tokens) + 1;
    const Row chosen_K = row(chosen_TK, t);
    right += hits(row(before_TK, t), chosen_K);
    chosen += std::ranges::count_if(chosen_K, [&](auto expert) { return expert < experts_; });
  }
  teach_all(~std::uint32_t{0});
  return chosen == 0 ? kNoValue : static_cast<float>(right / static_cast<double>(chosen));
}

}  // namespace moescope
