// Precision recipes: the quantization of each operand of a linear layer's three GEMMs.
//
//   forward  y_TN  = x_TK W_NK^T     contracts K
//   dgrad    dx_TK = dy_TN W_NK      contracts N
//   wgrad    dW_NK = dy_TN^T x_TK    contracts T
//
// Names are torchao's if torchao has the recipe. Each GEMM quantizes its operands anew from high precision, along the
// dimension that it contracts.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "core/numerics/gemm_operand.h"
#include "core/numerics/quantize.h"

namespace moescope {

enum class Recipe : std::uint8_t {
  fp32,
  bf16,
  fp8_tensorwise,
  fp8_rowwise,
  fp8_deepseek_128,
  mxfp8_floor,
  mxfp8_rceil,
  mxfp8_even,
  mxfp8_ceil,
  mxfp8_rceil_wgrad_with_hp,
  mxfp8_e5m2_grad,
  mxfp6_e2m3,
  mxfp6_e3m2,
  mxfp4,
  nvfp4,
};
inline constexpr int kNumRecipes = 15;

struct RecipeInfo {
  Recipe recipe;
  const char* name;         // name in configs: "mxfp8_rceil"
  const char* words;        // name on the screen: "MXFP8, scales rounded up"
  OperandFormat format;     // format of the operands, with the exceptions in recipe_format()
  const char* description;  // one line: what it is and who uses it
  const char* source;       // source of the definition
};
std::span<const RecipeInfo> recipes();  // in the order of the enumeration
const RecipeInfo& recipe_info(Recipe recipe);
std::optional<Recipe> recipe_named(std::string_view name);

// Returns the format of an operand. Forward multiplies x and W, dgrad dY and W, wgrad dY and x; other pairs are a
// programming error.
OperandFormat recipe_format(Recipe recipe, Direction direction, OperandRole operand);

// Returns the direction of the contracting dimension in x [T, K], W [N, K] and dY [T, N], stored row-major.
BlockAxis contracting_axis(Direction direction, OperandRole operand);

}  // namespace moescope
