// Recipes of single operands of one class of GEMMs, in place of the class's own: "experts.dY=mxfp8_e5m2_grad,
// attention.W=bf16". An entry may be for one of the three GEMMs of each weight, forward, dgrad or wgrad, and for some
// layers only, counted among all from 0: "experts.dY.wgrad=bf16, 2-3:experts.W.forward=mxfp4". The operand is quantized
// as that recipe quantizes it; of two entries for one operand the later one counts. Rounding and rotation of its own
// may follow a recipe: "experts.dY.wgrad=mxfp4+stochastic+rotated". A rotation cancels in the product, so both operands
// of the GEMM take it. Semicolons may separate entries as well, because commas have a meaning of their own in
// --compare.
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
  std::optional<Direction> gemm = {};  // nullopt: both that read the operand
  LayerRange layers = {};              // of the head, which is of no layer: all
  // In place of precision.rounding and precision.hadamard; nullopt: as they say. "nearest" or "stochastic", "rotated"
  // or "unrotated".
  std::optional<Rounding> rounding = {};
  std::optional<bool> rotated = {};
  bool operator==(const OperandRecipe&) const = default;
};

// Throws std::invalid_argument with the entry, what is wrong with it and what is allowed.
std::vector<OperandRecipe> parse_operand_recipes(std::string_view text);
std::string operand_recipes_text(const std::vector<OperandRecipe>& recipes);

}  // namespace moescope
