#include "core/model/layers/precision.h"

#include <optional>
#include <vector>

#include "core/config/operand_recipes.h"
#include "core/model/layers/operand_tap.h"
#include "core/numerics/rng.h"

namespace moescope {
namespace {

using OwnRecipes = std::array<std::optional<OperandRecipe>, kGemmOperands.size()>;  // for one class in one layer

OwnRecipes own_recipes(const std::vector<OperandRecipe>& all, GemmClass gemm_class, int layer) {
  OwnRecipes recipes;
  for (const OperandRecipe& recipe : all) {
    if (recipe.gemm_class != gemm_class || (gemm_class != GemmClass::head && !recipe.layers.holds(layer))) continue;
    for (std::size_t i = 0; i < kGemmOperands.size(); ++i)
      if (kGemmOperands[i].operand == recipe.operand && (!recipe.gemm || recipe.gemm == kGemmOperands[i].direction))
        recipes[i] = recipe;
  }
  return recipes;
}

// Returns the override of the operand, which applies to every class that is not in FP32, or else the format of the
// class's recipe.
OperandFormat class_format(const PrecisionConfig& config, Recipe recipe, GemmOperand at) {
  if (recipe == Recipe::fp32) return {};
  const std::optional<OperandFormat>* chosen = &config.override_dy;
  if (at.operand == OperandRole::x) chosen = &config.override_x;
  if (at.operand == OperandRole::w) chosen = &config.override_w;
  return *chosen ? **chosen : recipe_format(recipe, at.direction, at.operand);
}

Nvfp4Scaling nvfp4_scaling(const PrecisionConfig& config, OperandRole operand) {
  using enum FourOverSixChoice;
  const FourOverSixChoice choice = config.nvfp4_four_over_six;
  Nvfp4Scaling scaling{.rule = config.nvfp4_rule, .square = config.nvfp4_square_weights && operand == OperandRole::w};
  if (choice == mae_256 || choice == mae_448) scaling.four_over_six = FourOverSix::mae;
  if (choice == mse_256 || choice == mse_448) scaling.four_over_six = FourOverSix::mse;
  if (choice == mae_256 || choice == mse_256) scaling.scale_bound = 256;
  return scaling;
}

OperandFormat operand_format(const PrecisionConfig& config, Recipe recipe, const OwnRecipes& own_recipes,
                             GemmOperand at) {
  const auto& own_recipe = own_recipes[operand_index(at.direction, at.operand)];
  OperandFormat format =
      own_recipe ? recipe_format(own_recipe->recipe, at.direction, at.operand) : class_format(config, recipe, at);
  const bool drawn = config.stochastic_operands == StochasticOperands::all || at.operand == OperandRole::dy;
  if (is_scaled(format) && own_recipe && own_recipe->rounding)
    format.rounding = *own_recipe->rounding;
  else if (is_scaled(format) && drawn)
    format.rounding = config.rounding;
  if (format.scheme == QuantScheme::nvfp4) format.nvfp4 = nvfp4_scaling(config, at.operand);
  return format;
}

// Returns the number of values that are rotated together in the GEMM of operand `first` and the next one; 0: no
// rotation.
int rotation_of(const PrecisionConfig& config, Recipe recipe, const OwnRecipes& own_recipes, std::size_t first) {
  const auto values_of = [&](Recipe rotated) {
    return config.hadamard_signs != RotationForm::drawn || rotated == Recipe::nvfp4 ? 16 : 32;
  };
  for (const std::size_t i : {first, first + 1})
    if (own_recipes[i] && own_recipes[i]->rotated)
      return *own_recipes[i]->rotated ? values_of(own_recipes[i]->recipe) : 0;
  const bool rotates = config.hadamard_gemms == RotatedGemms::all || kGemmOperands[first].direction == Direction::wgrad;
  return config.hadamard && rotates ? values_of(recipe) : 0;
}

ClassPrecision class_precision(const PrecisionConfig& config, Recipe recipe, const OwnRecipes& own_recipes,
                               std::uint64_t seed) {
  ClassPrecision precision;
  precision.seed = seed;
  for (std::size_t i = 0; i < kGemmOperands.size(); i += 2) {
    OperandFormat &a = precision.formats[i], &b = precision.formats[i + 1];
    a = operand_format(config, recipe, own_recipes, kGemmOperands[i]);
    b = operand_format(config, recipe, own_recipes, kGemmOperands[i + 1]);
    // Either both operands of a product are rotated or neither. Without a quantized operand, a rotation has no use.
    const int rotation = rotation_of(config, recipe, own_recipes, i);
    if (rotation && (is_scaled(a) || is_scaled(b))) {
      a.hadamard = b.hadamard = rotation;
      a.rotation = b.rotation = config.hadamard_signs;
    }
    precision.plain = precision.plain && is_plain(a) && is_plain(b);
  }
  return precision;
}

bool in_bf16_layers(const PrecisionConfig& config, int n_layers, int layer) {
  return layer < config.layers_at_start_in_bf16 || layer >= n_layers - config.layers_at_end_in_bf16;
}

// Switches products with a quantized operand to BF16: all of them if `whole`, otherwise those of precision.late_bf16
// from step precision.bf16_from_step on.
void turn_to_bf16(const PrecisionConfig& config, bool whole, std::int64_t step, ClassPrecision& precision) {
  const bool late = config.bf16_from_step > 0 && step >= config.bf16_from_step;
  if (!whole && !late) return;
  for (std::size_t i = 0; i < kGemmOperands.size(); i += 2) {
    OperandFormat &a = precision.formats[i], &b = precision.formats[i + 1];
    const bool turns = whole || config.late_bf16 == LateBf16::all || kGemmOperands[i].direction == Direction::forward;
    if (turns && !(is_plain(a) && is_plain(b))) a = b = kBf16Format;
  }
}

}  // namespace

StepPrecision step_precision(const RunConfig& run, std::int64_t step, int layer) {
  const PrecisionConfig& config = run.precision;
  const std::uint64_t mixed = hash_of({static_cast<std::uint64_t>(run.seed), static_cast<std::uint64_t>(step)});
  StepPrecision precision;
  const std::vector<OperandRecipe> operands = parse_operand_recipes(config.operands);
  const auto set = [&](GemmClass gemm_class, Recipe recipe) {
    ClassPrecision& class_entry = precision.classes[static_cast<std::size_t>(gemm_class)];
    class_entry = class_precision(config, recipe, own_recipes(operands, gemm_class, layer), mixed);
    const bool is_in_layer = gemm_class != GemmClass::head;
    turn_to_bf16(config, is_in_layer && in_bf16_layers(config, run.model.n_layers, layer), step, class_entry);
    const bool is_gate = gemm_class == GemmClass::router_gate;
    class_entry.bf16_output = is_gate ? config.gate_output == StoredFormat::bf16
                                      : config.activations == StoredFormat::bf16 && !class_entry.plain;
    precision.plain = precision.plain && class_entry.plain;
  };
  set(GemmClass::experts, config.experts);
  set(GemmClass::shared_experts, config.shared_experts);
  set(GemmClass::dense_ffn, config.dense_ffn);
  set(GemmClass::attention, config.attention);
  set(GemmClass::router_gate, config.router_gate);
  set(GemmClass::head, config.head);
  precision.bf16_activations = config.activations == StoredFormat::bf16;
  precision.bf16_residual = config.residual == StoredFormat::bf16;
  precision.bf16_norm_gains = config.norm_gains == StoredFormat::bf16;
  return precision;
}

// mxfp8 applies to the rows that experts read: inputs and gradients of outputs. The rows that experts return are summed
// and stay in bf16.
OperandFormat transfer_format(TokenPayload payload, ModelOperand transfer) {
  const bool to_experts = (transfer.gemm == Gemm::dispatch) == (transfer.at.direction == Direction::forward);
  if (payload == TokenPayload::fp32) return {};
  return payload == TokenPayload::mxfp8 && to_experts ? mx_format(ElementFormat::e4m3) : kBf16Format;
}

std::uint64_t hash_of(std::initializer_list<std::uint64_t> values) {
  std::uint64_t hash = 0;
  for (const std::uint64_t value : values) hash = mix_bits(hash ^ mix_bits(value));
  return hash;
}

Gemm source_of_x(Gemm gemm) {
  const bool is_w3 = gemm == Gemm::dense_w3 || gemm == Gemm::shared_w3 || gemm == Gemm::expert_w3;
  return is_w3 ? static_cast<Gemm>(static_cast<int>(gemm) - 1) : gemm;  // w3 follows w1
}

RoundingKey LinearPrecision::key(Direction direction, OperandRole operand, int part) const {
  RoundingKey key;
  key.seed = formats->seed;
  key.stream = hash_of({stream, operand_index(direction, operand), static_cast<std::uint64_t>(part)});
  key.rotation_seed = hash_of({formats->seed, stream, static_cast<std::uint64_t>(direction)});
  if (operand != OperandRole::w) key.first_row = static_cast<std::uint32_t>(first_row);
  return key;
}

LinearPrecision LayerPrecision::linear_precision(Gemm first, int stacked) const {
  LinearPrecision precision;
  precision.shard_rows = shard_rows;
  precision.first_row = first_row;
  if (!step) return precision;
  const ClassPrecision& formats = step->class_precision(gemm_class_of(first));
  precision.bf16_output = formats.bf16_output;
  const int tapped = tap ? tap->part_of(layer, first, stacked) : -1;
  if (formats.plain && tapped < 0) return precision;
  const auto index = static_cast<std::size_t>(first);
  precision.formats = &formats;
  precision.stream = hash_of({static_cast<std::uint64_t>(layer), index});
  if (sums) precision.sums = std::span(*sums).subspan(index, stacked);
  precision.stacked = stacked;
  if (tapped >= 0) {
    precision.tap = tap;
    precision.tapped = tapped;
  }
  return precision;
}

}  // namespace moescope
