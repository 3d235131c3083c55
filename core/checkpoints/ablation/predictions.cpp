#include <algorithm>

#include "core/checkpoints/ablation/scans.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/statistics.h"

namespace moescope {
namespace {

double flips_of(const Predictions& exact, const Predictions& rounded) {
  std::size_t flips = 0, tokens = 0;
  for (std::size_t layer = 0; layer < exact.experts.size(); ++layer) {
    const auto top_k = size(exact.top_k);
    const std::vector<std::int32_t>&a = exact.experts[layer], &b = rounded.experts[layer];
    for (std::size_t at = 0; at < a.size(); at += top_k, ++tokens)
      if (!std::equal(a.begin() + at, a.begin() + at + top_k, b.begin() + at)) ++flips;
  }
  return tokens > 0 ? flips / static_cast<double>(tokens) : 0;
}

}  // namespace

void Predictions::routed(int, const RoutedTokens& tokens) {
  experts.push_back(tokens.ids);
  top_k = tokens.top_k;
}

void Predictions::logits(Index first, ConstMatrix<float> logits) {
  std::vector<float> p(logits.cols);
  for (Index r = 0; r < logits.rows; ++r) {
    const std::size_t t = first + r;
    if (t + 1 == ids_.size()) continue;
    const float lse = softmax_row(logits.row(r), p.size(), 1.0f, p.data());
    loss += lse - static_cast<double>(logits.at(r, ids_[t + 1]));
    for (Index v = 0; v < logits.cols; ++v) log_p.push_back(logits.at(r, v) - lse);
  }
}

Predictions predict(const CheckpointModel& model, std::span<const std::int32_t> piece) {
  Predictions found(piece);
  model.forward(piece, 1, std::ssize(piece), found);
  return found;
}

double divergence_of(const Predictions& exact, const Predictions& other) {
  const auto vocabulary = std::ssize(exact.log_p) / static_cast<Index>(exact.tokens());
  double sum = 0;
  for (std::size_t first = 0; first < exact.log_p.size(); first += vocabulary)
    sum += kl_divergence({exact.log_p.data() + first}, {other.log_p.data() + first}, vocabulary);
  return sum;
}

void PieceFigures::add(const Predictions& exact, const Predictions& changed) {
  loss_change.push_back((changed.loss - exact.loss) / exact.tokens());
  divergence.push_back(divergence_of(exact, changed) / exact.tokens());
  flips.push_back(flips_of(exact, changed));
}

}  // namespace moescope
