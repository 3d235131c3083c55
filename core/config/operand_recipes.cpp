#include "core/config/operand_recipes.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "core/io/trimmed.h"

namespace moescope {
namespace {

constexpr Operand kOperands[] = {Operand::x, Operand::w, Operand::dy};

std::optional<GemmClass> gemm_class_named(std::string_view name) {
  for (int i = 0; i < kNumGemmClasses; ++i)
    if (name == gemm_class_name(static_cast<GemmClass>(i))) return static_cast<GemmClass>(i);
  return std::nullopt;
}

std::optional<Operand> operand_named(std::string_view name) {
  const auto found = std::ranges::find_if(kOperands, [&](Operand operand) { return name == operand_name(operand); });
  return found == std::end(kOperands) ? std::nullopt : std::optional(*found);
}

[[noreturn]] void refuse(std::string_view entry, const std::string& why) {
  throw std::invalid_argument("\"" + std::string(entry) + "\": " + why);
}

OperandRecipe parse_entry(std::string_view entry) {
  const auto dot = entry.find('.'), equals = entry.find('=');
  if (dot == entry.npos || equals == entry.npos || dot > equals)
    refuse(entry, "expected CLASS.OPERAND=RECIPE, such as experts.dY=mxfp8_e5m2_grad");
  const auto gemm_class = gemm_class_named(trimmed(entry.substr(0, dot)));
  if (!gemm_class) {
    std::string names;
    for (int i = 0; i < kNumGemmClasses; ++i)
      names += (i ? ", " : "") + std::string(gemm_class_name(static_cast<GemmClass>(i)));
    refuse(entry, "classes are " + names);
  }
  const auto operand = operand_named(trimmed(entry.substr(dot + 1, equals - dot - 1)));
  if (!operand) refuse(entry, "operands are x, W, dY");
  const auto recipe = recipe_named(trimmed(entry.substr(equals + 1)));
  if (!recipe) {
    std::string names;
    for (const RecipeInfo& info : recipes()) names += (names.empty() ? "" : ", ") + std::string(info.name);
    refuse(entry, "recipes are " + names);
  }
  return {*gemm_class, *operand, *recipe};
}

}  // namespace

std::vector<OperandRecipe> parse_operand_recipes(std::string_view text) {
  std::vector<OperandRecipe> recipes;
  while (!trimmed(text).empty()) {
    const auto comma = std::min(text.find_first_of(",;"), text.size());
    recipes.push_back(parse_entry(trimmed(text.substr(0, comma))));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return recipes;
}

std::string operand_recipes_text(const std::vector<OperandRecipe>& recipes) {
  std::string text;
  for (const OperandRecipe& each : recipes)
    text += std::string(text.empty() ? "" : ", ") + gemm_class_name(each.gemm_class) + '.' +
            operand_name(each.operand) + '=' + recipe_info(each.recipe).name;
  return text;
}

}  // namespace moescope
