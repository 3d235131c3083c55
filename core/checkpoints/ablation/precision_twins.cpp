#include <algorithm>
#include <string_view>

#include "core/checkpoints/ablation/scans.h"
#include "core/config/config_toml.h"
#include "core/model/layers/precision.h"

namespace moescope {
namespace {

constexpr GemmClass kClasses[] = {GemmClass::attention, GemmClass::dense_ffn, GemmClass::experts,
                                  GemmClass::shared_experts};

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
      add(Scope::one_layer, to_int(i), gemm_class);
      ++layers;
    }
    if (layers > 1) add(Scope::all_layers, -1, gemm_class);
  }
  add(Scope::one_layer, -1, GemmClass::head);
  return twins;
}

// Rounds the operands that a published recipe rounds in a forward pass.
void round_published(CheckpointModel& model, std::string_view name) {
  RunConfig run;
  run.model.n_layers = to_int(model.layers().size());
  apply_published_recipe(name, run.precision);
  const auto rounding_of = [](const StepPrecision& step, GemmClass gemm_class) {
    const ClassPrecision& formats = step.class_precision(gemm_class);
    return OperandRounding{.x = formats.format(Direction::forward, OperandRole::x),
                           .w = formats.format(Direction::forward, OperandRole::w)};
  };
  model.round_nothing();
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    const StepPrecision step = step_precision(run, 0, layer);
    for (const GemmClass gemm_class : kClasses) model.set_rounding(layer, gemm_class, rounding_of(step, gemm_class));
  }
  model.set_rounding(-1, GemmClass::head, rounding_of(step_precision(run, 0, 0), GemmClass::head));
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
      if (all || gemm_class == twin.gemm_class) model.set_rounding(to_int(i), gemm_class, rounding);
  if (all) model.set_rounding(-1, GemmClass::head, rounding);
}

// Sets PrecisionTwin::behind: the divergence of the costliest twin of the same scope minus that of the twin.
void set_behind(std::vector<PrecisionTwin>& twins, const std::vector<PieceFigures>& figures) {
  for (std::size_t i = 0; i < twins.size(); ++i) {
    std::size_t first = i;
    for (std::size_t j = 0; j < twins.size(); ++j)
      if (twins[j].scope == twins[i].scope && twins[j].divergence.mean > twins[first].divergence.mean) first = j;
    std::vector<double> behind = figures[first].divergence;
    for (std::size_t piece = 0; piece < behind.size(); ++piece) behind[piece] -= figures[i].divergence[piece];
    twins[i].behind = figure_of_pieces(behind);
  }
}

}  // namespace

PrecisionScan compare_precision(CheckpointModel& model, const std::vector<LabelledText>& texts,
                                const ComparedTexts& which, Recipe recipe, const ScanProgress& progress) {
  PrecisionScan scan{.recipe = recipe, .twins = twins_of(model)};
  std::vector<PrecisionTwin>& twins = scan.twins;
  const auto pieces = pieces_of(texts, which);
  const auto names = published_recipe_names();
  std::vector<PieceFigures> figures(twins.size()), published_figures(names.size());
  require_passes(pieces.size(), 1 + twins.size() + names.size());
  const int passes = to_int(pieces.size() * (1 + twins.size() + names.size()));
  int done = 0;
  for (const auto& [text, piece] : pieces) {
    model.round_nothing();
    const Predictions exact = predict(model, piece);
    scan.loss += exact.loss / exact.tokens() / pieces.size();
    bool goes_on = progress(++done, passes);
    for (std::size_t i = 0; i < twins.size() && goes_on; ++i) {
      round(model, twins[i], recipe);
      figures[i].add(exact, predict(model, piece));
      goes_on = progress(++done, passes);
    }
    for (std::size_t i = 0; i < names.size() && goes_on; ++i) {
      round_published(model, names[i]);
      published_figures[i].add(exact, predict(model, piece));
      goes_on = progress(++done, passes);
    }
    model.round_nothing();
    if (!goes_on) return {.recipe = recipe, .twins = {}};
    ++scan.pieces;
  }
  for (std::size_t i = 0; i < twins.size(); ++i) {
    twins[i].loss_change = figure_of_pieces(figures[i].loss_change);
    twins[i].divergence = figure_of_pieces(figures[i].divergence);
    twins[i].flips = figure_of_pieces(figures[i].flips);
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    scan.published.push_back({std::string(names[i]), figure_of_pieces(published_figures[i].loss_change),
                              figure_of_pieces(published_figures[i].divergence)});
  set_behind(twins, figures);
  std::stable_sort(twins.begin() + 1, twins.end(), [](const PrecisionTwin& a, const PrecisionTwin& b) {
    return a.divergence.mean > b.divergence.mean;
  });
  return scan;
}

}  // namespace moescope
