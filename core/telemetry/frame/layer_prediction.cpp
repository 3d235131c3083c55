#include "core/telemetry/frame/layer_prediction.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "core/telemetry/frame/frame.h"

namespace moescope {

namespace {

constexpr std::size_t kMostAsked = 2048;
constexpr int kMostExperts = 4096;

class Prediction {
 public:
  explicit Prediction(std::size_t experts) : experts_(experts), together_(experts * experts), tokens_(experts) {}

  void teach(std::span<const std::uint16_t> before_K, std::span<const std::uint16_t> chosen_K) {
    for (const std::uint16_t i : before_K) {
      ++tokens_[i];
      for (const std::uint16_t j : chosen_K) ++together_[i * experts_ + j];
    }
  }

  // How many of the chosen experts are among the guessed ones.
  std::size_t hits(std::span<const std::uint16_t> before_K, std::span<const std::uint16_t> chosen_K) {
    score_.assign(experts_, 0);
    for (const std::uint16_t i : before_K)
      for (std::size_t j = 0; j < experts_ && tokens_[i] > 0; ++j)
        score_[j] += static_cast<double>(together_[i * experts_ + j]) / tokens_[i];
    order_.resize(experts_);
    std::iota(order_.begin(), order_.end(), std::uint16_t{0});
    const auto guessed = order_.begin() + static_cast<std::ptrdiff_t>(std::min(chosen_K.size(), experts_));
    std::ranges::partial_sort(order_, guessed, [&](std::uint16_t a, std::uint16_t b) {
      return score_[a] > score_[b] || (score_[a] == score_[b] && a < b);
    });
    return static_cast<std::size_t>(std::count_if(order_.begin(), guessed, [&](std::uint16_t expert) {
      return std::ranges::find(chosen_K, expert) != chosen_K.end();
    }));
  }

 private:
  std::size_t experts_;
  std::vector<std::uint32_t> together_, tokens_;  // [E, E], [E]
  std::vector<double> score_;
  std::vector<std::uint16_t> order_;
};

}  // namespace

float predicted_share(std::span<const std::uint16_t> before_TK, std::span<const std::uint16_t> chosen_TK, int top_k,
                      int n_experts) {
  const auto k = static_cast<std::size_t>(std::max(top_k, 1));
  const std::size_t tokens = chosen_TK.size() / k;
  if (tokens < 2 || before_TK.size() != chosen_TK.size() || n_experts > kMostExperts) return kNoValue;
  Prediction prediction(static_cast<std::size_t>(n_experts));
  const auto row = [&](std::span<const std::uint16_t> of, std::size_t token) { return of.subspan(token * k, k); };
  for (std::size_t t = 0; t < tokens; t += 2) prediction.teach(row(before_TK, t), row(chosen_TK, t));
  const std::size_t others = tokens / 2, asked = std::min(others, kMostAsked);
  std::size_t hits = 0;
  for (std::size_t i = 0; i < asked; ++i) {
    const std::size_t t = 2 * (i * others / asked) + 1;
    hits += prediction.hits(row(before_TK, t), row(chosen_TK, t));
  }
  return static_cast<float>(static_cast<double>(hits) / static_cast<double>(asked * k));
}

}  // namespace moescope
