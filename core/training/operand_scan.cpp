#include "core/training/operand_scan.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "core/config/config_check.h"
#include "core/model/learner.h"
#include "core/training/expert_weights.h"
#include "core/training/gradient_reference.h"

namespace moescope {
namespace {

struct ClassRecipe {
  GemmClass gemm_class;
  Recipe recipe;
};

std::vector<ClassRecipe> class_recipes(const PrecisionConfig& p) {
  return {{GemmClass::experts, p.experts},         {GemmClass::shared_experts, p.shared_experts},
          {GemmClass::dense_ffn, p.dense_ffn},     {GemmClass::attention, p.attention},
          {GemmClass::router_gate, p.router_gate}, {GemmClass::head, p.head}};
}

bool layer_has(const ModelConfig& model, int layer, GemmClass gemm_class) {
  const bool moe = layer >= model.n_dense_layers;
  if (gemm_class == GemmClass::attention) return true;
  if (gemm_class == GemmClass::dense_ffn) return !moe;
  if (gemm_class == GemmClass::shared_experts) return moe && model.n_shared > 0;
  return moe && gemm_class != GemmClass::head;
}

// Returns the recipe of an operand: that of the last matching entry of precision.operands, else that of its class.
OperandRecipe recipe_in(const std::vector<OperandRecipe>& entries, int layer, ClassRecipe class_recipe,
                        const GemmOperand& at) {
  OperandRecipe recipe{class_recipe.gemm_class, at.operand, class_recipe.recipe};
  for (const OperandRecipe& entry : entries)
    if (entry.gemm_class == class_recipe.gemm_class && entry.operand == at.operand &&
        (!entry.gemm || entry.gemm == at.direction) && (layer < 0 || entry.layers.holds(layer)))
      recipe = entry;
  return recipe;
}

// Returns the config with everything in FP32 except the operands `rounded`.
RunConfig rounding_only(const RunConfig& config, const std::vector<OperandRecipe>& rounded) {
  RunConfig out = in_fp32(config);
  out.precision.override_x = out.precision.override_w = out.precision.override_dy = std::nullopt;
  out.precision.operands = operand_recipes_text(rounded);
  return out;
}

// Runs passes over one batch with the learner's weights and a second set of activations.
class Passes {
 public:
  Passes(Learner<float>& learner, const Batch& batch)
      : learner_(learner),
        batch_(batch),
        config_(learner.config),
        model_(config_, learner.parameters, batch.sequences, batch.length) {}

  // Returns the loss of one forward and backward pass; its gradients are in the learner.
  double loss(const std::vector<OperandRecipe>& rounded) {
    config_ = rounding_only(learner_.config, rounded);
    PhaseClock clock;
    const double ce = model_.forward(batch_, learner_.expert_bias, false, clock, learner_.steps_taken).ce;
    model_.backward(batch_, clock);
    return ce;
  }
  std::span<const float> gradients() const { return learner_.parameters.gradients; }

 private:
  Learner<float>& learner_;
  const Batch& batch_;
  RunConfig config_;
  Transformer<float> model_;
};

void check(const RunConfig& config, const std::vector<OperandRecipe>& rounded) {
  const auto problems = validate(rounding_only(config, rounded));
  if (!problems.empty()) throw std::invalid_argument(problems.front().text());
}

void rank(std::vector<OperandEffect>& effects) {
  double sum = 0;
  for (const OperandEffect& effect : effects) sum += effect.gradient_error * effect.gradient_error;
  for (OperandEffect& effect : effects)
    effect.share = sum > 0 ? effect.gradient_error * effect.gradient_error / sum : 0;
  std::ranges::stable_sort(effects, std::greater(), &OperandEffect::gradient_error);
}

}  // namespace

std::vector<OperandRecipe> scanned_operands(const RunConfig& config, std::optional<Recipe> recipe) {
  const PrecisionConfig& p = config.precision;
  if (!recipe && (p.override_x || p.override_w || p.override_dy))
    throw std::invalid_argument(
        "precision.override_x, override_w and override_dy replace formats of recipes: set "
        "precision.operands instead, or give one recipe for all operands");
  const std::vector<OperandRecipe> entries = parse_operand_recipes(p.operands);
  std::vector<OperandRecipe> found;
  const auto add = [&](int layer, ClassRecipe class_recipe) {
    for (const GemmOperand& at : kGemmOperands) {
      OperandRecipe rounding = recipe_in(entries, layer, class_recipe, at);
      if (recipe) rounding = {class_recipe.gemm_class, at.operand, *recipe};
      if (is_plain(recipe_format(rounding.recipe, at.direction, at.operand))) continue;
      rounding.gemm = at.direction;
      rounding.layers = layer >= 0 ? LayerRange{layer, layer} : LayerRange{};
      found.push_back(rounding);
    }
  };
  for (int layer = 0; layer < config.model.n_layers; ++layer)
    for (const ClassRecipe& class_recipe : class_recipes(p))
      if (layer_has(config.model, layer, class_recipe.gemm_class)) add(layer, class_recipe);
  add(-1, {GemmClass::head, p.head});
  check(config, found);
  return found;
}

std::optional<OperandScan> scan_operands(Learner<float>& learner, const Batch& batch, std::optional<Recipe> recipe,
                                         const std::function<bool(int done, int total)>& progress) {
  const std::vector<OperandRecipe> operands = scanned_operands(learner.config, recipe);
  OperandScan scan;
  const int passes = to_int(operands.size()) + 2;
  int done = 0;
  const auto go_on = [&] { return !progress || progress(++done, passes); };
  Passes model(learner, batch);
  scan.loss = model.loss({});
  const std::vector<float> exact(model.gradients().begin(), model.gradients().end());
  const double norm = std::sqrt(squares_of(exact));
  const auto error = [&] { return norm > 0 ? std::sqrt(squares_of(model.gradients(), exact)) / norm : 0; };
  if (!go_on()) return std::nullopt;
  scan.all_loss_change = model.loss(operands) - scan.loss;
  scan.all_gradient_error = error();
  if (!go_on()) return std::nullopt;
  for (const OperandRecipe& recipe : operands) {
    OperandEffect effect{recipe.gemm_class == GemmClass::head ? -1 : recipe.layers.first, recipe.gemm_class,
                         recipe.operand, *recipe.gemm, recipe_info(recipe.recipe).name};
    effect.loss_change = model.loss({recipe}) - scan.loss;
    effect.gradient_error = error();
    scan.effects.push_back(std::move(effect));
    if (!go_on()) return std::nullopt;
  }
  rank(scan.effects);
  return scan;
}

}  // namespace moescope
