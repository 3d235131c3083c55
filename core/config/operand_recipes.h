// Recipes of single operands of a class of GEMMs, which replace the recipe of the class: "experts.dY=mxfp8_e5m2_grad,
// attention.W=bf16". An entry may name one of the three GEMMs of each weight, forward, dgrad or wgrad, and a range of
// layers, which are counted from 0 and include dense layers: "experts.dY.wgrad=bf16, 2-3:experts.W.forward=mxfp4". The
// operand is quantized as the named recipe quantizes it. If an operand has two entries, the later one counts. A recipe
// may be followed by its own rounding and rotation: "experts.dY.wgrad=mxfp4+stochastic+rotated". A rotation has to
// cancel in the product, so both operands of the GEMM are rotated. Semicolons may separate entries as well, because
// commas have another meaning in --compare.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/frame/frame.h"
#include "core/numerics/recipes.h"

namespace moescope {

struct LayerRange {
  int first = 0, last = std::numeric_limits<int>::max();
  bool holds(int layer) const { return first <= layer && layer <= last; }
  bool operator==(const LayerRange&) const = default;
};

struct OperandRecipe {
  GemmClass gemm_class;
  OperandRole operand;
  Recipe recipe;
  std::optional<Direction> gemm = {};  // nullopt: both GEMMs that read the operand
  LayerRange layers = {};              // all for the head, which is not in a layer
  // "nearest" or "stochastic", "rotated" or "unrotated", in place of precision.rounding and precision.hadamard;
  // nullopt: the value of that setting.
  std::optional<Rounding> rounding = {};
  std::optional<bool> rotated = {};
  bool operator==(const OperandRecipe&) const = default;
};

// Throws std::invalid_argument with the entry, the problem and what is allowed.
std::vector<OperandRecipe> parse_operand_recipes(std::string_view text);
std::string operand_recipes_text(const std::vector<OperandRecipe>& recipes);

}  // namespace moescope
