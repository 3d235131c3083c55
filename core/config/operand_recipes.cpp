#include "core/config/operand_recipes.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

#include "core/files/text/words.h"

namespace moescope {
namespace {

[[noreturn]] void refuse(std::string_view entry, const std::string& reason) {
  throw std::invalid_argument("\"" + std::string(entry) + "\": " + reason);
}

// True if this GEMM multiplies the operand: y = x W, dx = dY W, dW = dY x.
bool reads(Direction gemm, OperandRole operand) {
  if (gemm == Direction::forward) return operand != OperandRole::dy;
  return operand != (gemm == Direction::dgrad ? OperandRole::x : OperandRole::w);
}

LayerRange parse_layers(std::string_view entry, std::string_view text) {
  const auto number = [&](std::string_view digits) {
    int value = -1;
    if (!read_number(digits, value) || value < 0) refuse(entry, "layers are a number or a range, such as 2 or 2-5");
    return value;
  };
  const auto dash = text.find('-');
  const LayerRange range{number(trimmed(text.substr(0, dash))),
                         number(trimmed(dash == text.npos ? text : text.substr(dash + 1)))};
  if (range.last < range.first) refuse(entry, "the range of layers ends before it begins");
  return range;
}

// Parses "+stochastic+rotated"; empty text sets nothing.
void parse_options(std::string_view entry, std::string_view text, OperandRecipe& out) {
  while (!text.empty()) {
    const auto end = std::min(text.find('+', 1), text.size());
    const std::string_view option = trimmed(text.substr(1, end - 1));
    if (option == "nearest" || option == "stochastic")
      out.rounding = option == "nearest" ? Rounding::nearest : Rounding::stochastic;
    else if (option == "rotated" || option == "unrotated")
      out.rotated = option == "rotated";
    else
      refuse(entry, "after a recipe there may be +nearest or +stochastic, and +rotated or +unrotated");
    text.remove_prefix(end);
  }
}

std::string options_text(const OperandRecipe& recipe) {
  std::string text;
  if (recipe.rounding) text += *recipe.rounding == Rounding::nearest ? "+nearest" : "+stochastic";
  if (recipe.rotated) text += *recipe.rotated ? "+rotated" : "+unrotated";
  return text;
}

OperandRecipe parse_entry(std::string_view entry) {
  OperandRecipe out{};
  const auto colon = entry.find(':');
  const std::string_view whole = colon == entry.npos ? entry : trimmed(entry.substr(colon + 1));
  if (colon != entry.npos) out.layers = parse_layers(entry, trimmed(entry.substr(0, colon)));
  const auto dot = whole.find('.'), equals = whole.find('=');
  if (dot == whole.npos || equals == whole.npos || dot > equals)
    refuse(entry, "expected CLASS.OPERAND=RECIPE, such as experts.dY=mxfp8_e5m2_grad");
  const auto gemm_class = gemm_class_name.find(trimmed(whole.substr(0, dot)));
  if (!gemm_class || *gemm_class == GemmClass::payload)
    refuse(entry, "classes are " + joined(std::span(gemm_class_name.names).first(kNumGemmClasses), ", "));
  out.gemm_class = *gemm_class;
  if (colon != entry.npos && *gemm_class == GemmClass::head) refuse(entry, "the head is not part of a layer");
  const std::string_view operand_text = whole.substr(dot + 1, equals - dot - 1);
  const auto second = operand_text.find('.');
  const auto operand = operand_name.find(trimmed(operand_text.substr(0, second)));
  if (!operand) refuse(entry, "operands are x, W, dY");
  out.operand = *operand;
  if (second != operand_text.npos) {
    const std::string_view gemm = trimmed(operand_text.substr(second + 1));
    out.gemm = direction_name.find(gemm == "fprop" ? "forward" : gemm);
    if (!out.gemm) refuse(entry, "GEMMs are forward (or fprop), dgrad, wgrad");
    if (!reads(*out.gemm, out.operand))
      refuse(entry, std::string(direction_name(*out.gemm)) + " does not read " + operand_name(out.operand) +
                        ": forward multiplies x and W, dgrad dY and W, wgrad dY and x");
  }
  std::string_view how = whole.substr(equals + 1);
  const auto plus = std::min(how.find('+'), how.size());
  const auto recipe = recipe_named(trimmed(how.substr(0, plus)));
  if (!recipe) refuse(entry, "recipes are " + joined(recipes(), ", ", &RecipeInfo::name));
  out.recipe = *recipe;
  parse_options(entry, how.substr(plus), out);
  return out;
}

std::string layers_text(const LayerRange& layers) {
  if (layers == LayerRange{}) return {};
  return fmt::format("{}{}:", layers.first, layers.last == layers.first ? "" : fmt::format("-{}", layers.last));
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
  return joined(recipes, ", ", [](const OperandRecipe& entry) {
    return layers_text(entry.layers) + gemm_class_name(entry.gemm_class) + '.' + operand_name(entry.operand) +
           (entry.gemm ? std::string(".") + direction_name(*entry.gemm) : "") + '=' + recipe_info(entry.recipe).name +
           options_text(entry);
  });
}

}  // namespace moescope
