#include "core/numerics/recipes.h"

#include <cassert>

namespace moescope {
namespace {

constexpr RecipeInfo kRecipes[] = {
    {Recipe::fp32,
     "fp32",
     "FP32",
     {},
     "Operands as they are; the reference that all others are compared with.",
     "IEEE 754"},
    {Recipe::bf16, "bf16", "BF16", kBf16Format, "Operands rounded to bfloat16; what most models are trained in.",
     "TorchTitan's default mixed precision"},
    {Recipe::fp8_tensorwise, "fp8_tensorwise", "FP8, one scale per tensor", fp8_format(ScaleGranularity::tensor),
     "FP8 with one FP32 scale per tensor: E4M3, gradients E5M2. The first FP8 training on H100, dense layers.",
     "torchao float8, recipe tensorwise"},
    {Recipe::fp8_rowwise, "fp8_rowwise", "FP8, one scale per row",
     fp8_format(ScaleGranularity::row, ElementFormat::e4m3, true),
     "FP8 E4M3 with one power-of-two FP32 scale per row: one token or one output feature. Llama-scale training.",
     "torchao float8, recipe rowwise"},
    {Recipe::fp8_deepseek_128, "fp8_deepseek_128", "FP8, scales per 128 values",
     fp8_format(ScaleGranularity::block_1x128),
     "FP8 E4M3 with FP32 scales per 1x128 of activations and gradients and per 128x128 of weights: DeepSeek-V3.",
     "DeepSeek-V3 report, arXiv:2412.19437, section 3.3.2"},
    {Recipe::mxfp8_floor, "mxfp8_floor", "MXFP8, scales rounded down", mx_format(ElementFormat::e4m3, ScaleRule::floor),
     "MXFP8 E4M3 by the scale rule of the OCP standard, which clips a block whose largest value is above 1.75 x 2^k.",
     "OCP Microscaling Formats v1.0, section 6.3"},
    {Recipe::mxfp8_rceil, "mxfp8_rceil", "MXFP8, scales rounded up", mx_format(ElementFormat::e4m3),
     "MXFP8 E4M3 in all three GEMMs, scales rounded up so that nothing clips: training on Blackwell.",
     "torchao MoE training, recipe mxfp8_rceil; NVIDIA, arXiv:2506.08027"},
    {Recipe::mxfp8_even, "mxfp8_even", "MXFP8, scales rounded even", mx_format(ElementFormat::e4m3, ScaleRule::even),
     "MXFP8 E4M3 with scales by rounding the largest value to the element's precision first; clips less than FLOOR.",
     "torchao ScaleCalculationMode.EVEN"},
    {Recipe::mxfp8_ceil, "mxfp8_ceil", "MXFP8, exponent rounded up", mx_format(ElementFormat::e4m3, ScaleRule::ceil),
     "MXFP8 E4M3 with the largest value's exponent rounded up: never clips, wastes up to a bit of range.",
     "torchao ScaleCalculationMode.CEIL"},
    {Recipe::mxfp8_rceil_wgrad_with_hp, "mxfp8_rceil_wgrad_with_hp", "MXFP8, wgrad in BF16",
     mx_format(ElementFormat::e4m3), "As mxfp8_rceil, but the weight gradient multiplies bfloat16 operands.",
     "torchao MoE training, recipe mxfp8_rceil_wgrad_with_hp"},
    {Recipe::mxfp8_e5m2_grad, "mxfp8_e5m2_grad", "MXFP8, gradients in E5M2", mx_format(ElementFormat::e4m3),
     "As mxfp8_rceil, but gradients in E5M2: more range, one bit less precision.",
     "the E4M3/E5M2 split of arXiv:2209.05433, in MX blocks"},
    {Recipe::mxfp6_e2m3, "mxfp6_e2m3", "MXFP6, E2M3", mx_format(ElementFormat::e2m3),
     "MXFP6 with 3 mantissa bits: E4M3's precision in a narrow range.",
     "OCP Microscaling Formats v1.0; scales by RCEIL"},
    {Recipe::mxfp6_e3m2, "mxfp6_e3m2", "MXFP6, E3M2", mx_format(ElementFormat::e3m2),
     "MXFP6 with 2 mantissa bits and more range.", "OCP Microscaling Formats v1.0; scales by RCEIL"},
    {Recipe::mxfp4, "mxfp4", "MXFP4", mx_format(ElementFormat::e2m1),
     "MXFP4: values 0, 0.5, 1, 1.5, 2, 3, 4, 6 in blocks of 32; too coarse for all three GEMMs: the weight gradient "
     "breaks first.",
     "OCP Microscaling Formats v1.0; scales by RCEIL; the weight gradient: arXiv:2605.09825"},
    {Recipe::nvfp4, "nvfp4", "NVFP4", kNvfp4Format,
     "FP4 in blocks of 16 with E4M3 block scales and an FP32 tensor scale. NVIDIA trains with weights in blocks of "
     "16x16, stochastic rounding of gradients and a rotated weight gradient on top.",
     "torchao NVFP4Tensor, whose least block scale is 2^-6; NVIDIA, arXiv:2509.25149"},
};
static_assert(std::size(kRecipes) == kNumRecipes);

[[maybe_unused]] bool multiplies(Direction direction, OperandRole operand) {
  switch (direction) {
    case Direction::forward:
      return operand != OperandRole::dy;
    case Direction::dgrad:
      return operand != OperandRole::x;
    case Direction::wgrad:
      return operand != OperandRole::w;
  }
  return false;
}

}  // namespace

std::span<const RecipeInfo> recipes() {
  return kRecipes;
}

const RecipeInfo& recipe_info(Recipe recipe) {
  return kRecipes[static_cast<int>(recipe)];
}

std::optional<Recipe> recipe_named(std::string_view name) {
  for (const RecipeInfo& info : kRecipes)
    if (name == info.name) return info.recipe;
  return std::nullopt;
}

OperandFormat recipe_format(Recipe recipe, Direction direction, OperandRole operand) {
  assert(multiplies(direction, operand));
  OperandFormat format = recipe_info(recipe).format;
  if (recipe == Recipe::mxfp8_rceil_wgrad_with_hp && direction == Direction::wgrad) return kBf16Format;
  if (recipe == Recipe::fp8_deepseek_128 && operand == OperandRole::w)
    format.granularity = ScaleGranularity::block_128x128;
  if ((recipe == Recipe::fp8_tensorwise || recipe == Recipe::mxfp8_e5m2_grad) && operand == OperandRole::dy)
    format.element = ElementFormat::e5m2;
  return format;
}

BlockAxis contracting_axis(Direction direction, OperandRole operand) {
  assert(multiplies(direction, operand));
  const bool along_row =
      direction == Direction::forward || (direction == Direction::dgrad && operand == OperandRole::dy);
  return along_row ? BlockAxis::row : BlockAxis::column;
}

}  // namespace moescope
