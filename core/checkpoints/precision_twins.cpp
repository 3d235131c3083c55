#include "core/checkpoints/precision_twins.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "core/frame/student_t.h"
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
  return {sum / n, n > 1 ? student_95(n - 1) * error : error};
}

bool has_class(const CheckpointModel::Layer& layer, GemmClass gemm_class) {
  if (gemm_class == GemmClass::attention) return true;
  if (gemm_class == GemmClass::dense_ffn) return !layer.has_experts();
  return layer.has_experts() && !(gemm_class == GemmClass::shared_experts && layer.moe.shared.empty());
}

std::vector<PrecisionTwin> twins_of(const CheckpointModel& model) {
  using Scope = PrecisionTwin::Scope;
  std::vector<PrecisionTwin> twins = {{.scope = Scope::all_operands}};
  const auto add = [&](Scope scope, int layer, GemmClass gemm_class) {
    for (const OperandRole operand : {OperandRole::x, OperandRole::w})
      twins.push_back({.scope = scope, .layer = layer, .gemm_class = gemm_class, .operand = operand});
  };
  for (const GemmClass gemm_class : kClasses) {
    int layers = 0;
    for (std::size_t i = 0; i < model.layers().size(); ++i) {
      if (!has_class(model.layers()[i], gemm_class)) continue;
      add(Scope::one_layer, static_cast<int>(i), gemm_class);
      ++layers;
    }
    if (layers > 1) add(Scope::all_layers, -1, gemm_class);
  }
  add(Scope::one_layer, -1, GemmClass::head);
  return twins;
}

void round(CheckpointModel& model, const PrecisionTwin& twin, Recipe recipe) {
  const bool all = twin.scope == PrecisionTwin::Scope::all_operands;
  OperandRounding rounding;
  for (const OperandRole operand : {OperandRole::x, OperandRole::w})
    if (all || operand == twin.operand)
      (operand == OperandRole::x ? rounding.x : rounding.w) = recipe_format(recipe, Direction::forward, operand);
  model.round_nothing();
  if (twin.scope == PrecisionTwin::Scope::one_layer) return model.set_rounding(twin.layer, twin.gemm_class, rounding);
  for (std::size_t i = 0; i < model.layers().size(); ++i)
    for (const GemmClass gemm_class : kClasses)
      if (all || gemm_class == twin.gemm_class) model.set_rounding(static_cast<int>(i), gemm_class, rounding);
  if (all) model.set_rounding(-1, GemmClass::head, rounding);
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

// Figures of each piece, by twin.
struct PieceFigures {
  std::vector<double> loss_change, divergence, flips;
};

// Of the costliest twin of each scope minus the others'.
void set_behind(std::vector<PrecisionTwin>& twins, const std::vector<PieceFigures>& figures) {
  for (std::size_t i = 0; i < twins.size(); ++i) {
    std::size_t first = i;
    for (std::size_t j = 0; j < twins.size(); ++j)
      if (twins[j].scope == twins[i].scope && twins[j].divergence.mean > twins[first].divergence.mean) first = j;
    std::vector<double> behind = figures[first].divergence;
    for (std::size_t piece = 0; piece < behind.size(); ++piece) behind[piece] -= figures[i].divergence[piece];
    twins[i].behind = figure(behind);
  }
}

}  // namespace

PrecisionScan compare_precision(CheckpointModel& model, const std::vector<LabelledText>& texts, const TwinTexts& which,
                                Recipe recipe, const std::function<bool(int done, int of)>& progress) {
  PrecisionScan scan{.recipe = recipe, .twins = twins_of(model)};
  std::vector<PrecisionTwin>& twins = scan.twins;
  const auto pieces = pieces_of(texts, which);
  std::vector<PieceFigures> figures(twins.size());
  const int passes = static_cast<int>(pieces.size() * (twins.size() + 1));
  int done = 0;
  for (const auto& piece : pieces) {
    const double tokens = static_cast<double>(piece.size() - 1);
    model.round_nothing();
    const PassResult exact = pass(model, piece);
    scan.loss += exact.loss / tokens / static_cast<double>(pieces.size());
    bool goes_on = progress(++done, passes);
    for (std::size_t i = 0; i < twins.size() && goes_on; ++i) {
      round(model, twins[i], recipe);
      const PassResult rounded = pass(model, piece);
      figures[i].loss_change.push_back((rounded.loss - exact.loss) / tokens);
      figures[i].divergence.push_back(divergence_of(exact, rounded) / tokens);
      figures[i].flips.push_back(flips_of(exact, rounded));
      goes_on = progress(++done, passes);
    }
    model.round_nothing();
    if (!goes_on) return {.recipe = recipe};
    ++scan.pieces;
  }
  for (std::size_t i = 0; i < twins.size(); ++i) {
    twins[i].loss_change = figure(figures[i].loss_change);
    twins[i].divergence = figure(figures[i].divergence);
    twins[i].flips = figure(figures[i].flips);
  }
  set_behind(twins, figures);
  std::stable_sort(twins.begin() + 1, twins.end(), [](const PrecisionTwin& a, const PrecisionTwin& b) {
    return a.divergence.mean > b.divergence.mean;
  });
  return scan;
}

}  // namespace moescope
