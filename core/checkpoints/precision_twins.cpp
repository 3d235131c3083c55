#include "core/checkpoints/precision_twins.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "core/numerics/kernels/row_math.h"
#include "core/numerics/size.h"

namespace moescope {
namespace {

constexpr GemmClass kClasses[] = {GemmClass::attention, GemmClass::dense_ffn, GemmClass::experts,
                                  GemmClass::shared_experts};

// What one pass over a piece leaves: log-probabilities of the next tokens, and experts by layer.
class PassResult : public PassWatch {
 public:
  explicit PassResult(std::span<const std::int32_t> ids) : ids_(ids) {}
  void routed(int, const RoutedTokens& tokens) override { experts.push_back(tokens.ids), top_k = tokens.top_k; }
  void logits(Index first, ConstMatrix<float> logits) override {
    vocab = logits.cols;
    std::vector<float> p(static_cast<std::size_t>(vocab));
    for (Index r = 0; r < logits.rows; ++r) {
      const auto t = static_cast<std::size_t>(first + r);
      if (t + 1 == ids_.size()) continue;
      const float lse = softmax_row(logits.row(r), p.size(), 1.0f, p.data());
      loss += static_cast<double>(lse) - static_cast<double>(logits.at(r, ids_[t + 1]));
      for (Index v = 0; v < vocab; ++v) log_p.push_back(logits.at(r, v) - lse);
    }
  }
  double loss = 0;
  std::vector<float> log_p;  // [tokens - 1, V]
  std::vector<std::vector<std::int32_t>> experts;
  int top_k = 0;
  Index vocab = 0;

 private:
  std::span<const std::int32_t> ids_;
};

double divergence_of(const PassResult& exact, const PassResult& rounded) {
  double sum = 0;
  for (std::size_t i = 0; i < exact.log_p.size(); ++i) {
    const double p = std::exp(static_cast<double>(exact.log_p[i]));
    sum += p * (static_cast<double>(exact.log_p[i]) - static_cast<double>(rounded.log_p[i]));
  }
  return sum;
}

double flips_of(const PassResult& exact, const PassResult& rounded) {
  std::size_t flips = 0, tokens = 0;
  for (std::size_t layer = 0; layer < exact.experts.size(); ++layer) {
    const auto top_k = size(exact.top_k);
    const std::vector<std::int32_t>&a = exact.experts[layer], &b = rounded.experts[layer];
    for (std::size_t at = 0; at < a.size(); at += top_k, ++tokens)
      if (!std::equal(a.begin() + static_cast<std::ptrdiff_t>(at), a.begin() + static_cast<std::ptrdiff_t>(at + top_k),
                      b.begin() + static_cast<std::ptrdiff_t>(at)))
        ++flips;
  }
  return tokens > 0 ? static_cast<double>(flips) / static_cast<double>(tokens) : 0;
}

FigureOfPieces figure(const std::vector<double>& each) {
  const auto n = static_cast<double>(each.size());
  double sum = 0, squares = 0;
  for (const double value : each) sum += value;
  for (const double value : each) squares += (value - sum / n) * (value - sum / n);
  const double error = n > 1 ? std::sqrt(squares / (n - 1) / n) : std::numeric_limits<double>::quiet_NaN();
  return {sum / n, 1.96 * error};
}

std::vector<PrecisionTwin> twins_of(const CheckpointModel& model) {
  std::vector<PrecisionTwin> twins = {{.layer = -1, .all = true}};
  const auto add = [&](int layer, GemmClass gemm_class) {
    for (const OperandRole operand : {OperandRole::x, OperandRole::w})
      twins.push_back({.layer = layer, .gemm_class = gemm_class, .operand = operand});
  };
  for (std::size_t i = 0; i < model.layers().size(); ++i)
    for (const GemmClass gemm_class : kClasses) {
      const CheckpointModel::Layer& layer = model.layers()[i];
      const bool there =
          gemm_class == GemmClass::attention || (gemm_class == GemmClass::dense_ffn) != layer.has_experts();
      if (there && !(gemm_class == GemmClass::shared_experts && layer.moe.shared.empty()))
        add(static_cast<int>(i), gemm_class);
    }
  add(-1, GemmClass::head);
  return twins;
}

void round(CheckpointModel& model, const PrecisionTwin& twin, Recipe recipe) {
  const auto format = [&](OperandRole operand) { return recipe_format(recipe, Direction::forward, operand); };
  model.round_nothing();
  if (!twin.all) {
    OperandRounding one;
    (twin.operand == OperandRole::x ? one.x : one.w) = format(twin.operand);
    return model.set_rounding(twin.layer, twin.gemm_class, one);
  }
  const OperandRounding both{format(OperandRole::x), format(OperandRole::w)};
  for (std::size_t i = 0; i < model.layers().size(); ++i)
    for (const GemmClass gemm_class : kClasses) model.set_rounding(static_cast<int>(i), gemm_class, both);
  model.set_rounding(-1, GemmClass::head, both);
}

std::vector<std::span<const std::int32_t>> pieces_of(const std::vector<LabelledText>& texts, const TwinTexts& which) {
  const auto length = static_cast<std::size_t>(which.length);
  std::vector<std::span<const std::int32_t>> pieces;
  for (std::size_t first = 0, left = texts.size(); left > 0; first += length) {
    left = 0;
    for (const LabelledText& text : texts) {
      if (first + 2 > text.ids.size()) continue;
      ++left;
      if (pieces.size() < size(which.pieces))
        pieces.push_back(std::span(text.ids).subspan(first, std::min(length, text.ids.size() - first)));
    }
  }
  if (pieces.empty()) throw std::runtime_error("no text has two tokens");
  return pieces;
}

PassResult pass(const CheckpointModel& model, std::span<const std::int32_t> piece) {
  PassResult result(piece);
  model.forward(piece, 1, std::ssize(piece), result);
  return result;
}

}  // namespace

std::string twin_name(const PrecisionTwin& twin) {
  if (twin.all) return "all operands";
  return (twin.layer < 0 ? std::string() : "layer " + std::to_string(twin.layer) + ", ") +
         gemm_class_name(twin.gemm_class) + ", " + operand_name(twin.operand);
}

std::vector<PrecisionTwin> compare_precision(CheckpointModel& model, const std::vector<LabelledText>& texts,
                                             const TwinTexts& which, Recipe recipe,
                                             const std::function<void(int, int)>& progress) {
  std::vector<PrecisionTwin> twins = twins_of(model);
  const auto pieces = pieces_of(texts, which);
  std::vector<std::vector<double>> losses(twins.size()), divergences(twins.size()), flips(twins.size());
  const int passes = static_cast<int>(pieces.size() * (twins.size() + 1));
  int done = 0;
  for (const auto& piece : pieces) {
    const double tokens = static_cast<double>(piece.size() - 1);
    model.round_nothing();
    const PassResult exact = pass(model, piece);
    progress(++done, passes);
    for (std::size_t i = 0; i < twins.size(); ++i) {
      round(model, twins[i], recipe);
      const PassResult rounded = pass(model, piece);
      losses[i].push_back((rounded.loss - exact.loss) / tokens);
      divergences[i].push_back(divergence_of(exact, rounded) / tokens);
      flips[i].push_back(flips_of(exact, rounded));
      progress(++done, passes);
    }
  }
  model.round_nothing();
  for (std::size_t i = 0; i < twins.size(); ++i) {
    twins[i].loss_change = figure(losses[i]);
    twins[i].divergence = figure(divergences[i]);
    twins[i].flips = figure(flips[i]);
  }
  std::stable_sort(twins.begin() + 1, twins.end(), [](const PrecisionTwin& a, const PrecisionTwin& b) {
    return a.divergence.mean > b.divergence.mean;
  });
  return twins;
}

}  // namespace moescope
