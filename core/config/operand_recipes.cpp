#include "core/config/operand_recipes.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>

#include "core/io/trimmed.h"

namespace moescope {
namespace {

constexpr OperandRole kOperands[] = {OperandRole::x, OperandRole::w, OperandRole::dy};
constexpr Direction kDirections[] = {Direction::forward, Direction::dgrad, Direction::wgrad};

std::optional<GemmClass> gemm_class_named(std::string_view name) {
  for (int i = 0; i < kNumGemmClasses; ++i)
    if (name == gemm_class_name(static_cast<GemmClass>(i))) return static_cast<GemmClass>(i);
  return std::nullopt;
}

std::optional<OperandRole> operand_named(std::string_view name) {
  const auto found =
      std::ranges::find_if(kOperands, [&](OperandRole operand) { return name == operand_name(operand); });
  return found == std::end(kOperands) ? std::nullopt : std::optional(*found);
}

[[noreturn]] void refuse(std::string_view entry, const std::string& why) {
  throw std::invalid_argument("\"" + std::string(entry) + "\": " + why);
}

std::string class_names() {
  std::string names;
  for (int i = 0; i < kNumGemmClasses; ++i)
    names += (i ? ", " : "") + std::string(gemm_class_name(static_cast<GemmClass>(i)));
  return names;
}

std::string recipe_names() {
  std::string names;
  for (const RecipeInfo& info : recipes()) names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

// True if this GEMM multiplies the operand: y = x W, dx = dY W, dW = dY x.
bool reads(Direction gemm, OperandRole operand) {
  return operand != (gemm == Direction::forward ? OperandRole::dy
                     : gemm == Direction::dgrad ? OperandRole::x
                                                : OperandRole::w);
}

std::optional<Direction> direction_named(std::string_view name) {
  if (name == "fprop") return Direction::forward;
  const auto found = std::ranges::find_if(kDirections, [&](Direction each) { return name == direction_name(each); });
  return found == std::end(kDirections) ? std::nullopt : std::optional(*found);
}

// Parses "2" or "2-5".
LayerRange parse_layers(std::string_view entry, std::string_view text) {
  const auto number = [&](std::string_view digits) {
    int value = -1;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (read.ec != std::errc() || read.ptr != digits.data() + digits.size() || value < 0)
      refuse(entry, "layers are a number or a range, such as 2 or 2-5");
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
  const std::string_view named = colon == entry.npos ? entry : trimmed(entry.substr(colon + 1));
  if (colon != entry.npos) out.layers = parse_layers(entry, trimmed(entry.substr(0, colon)));
  const auto dot = named.find('.'), equals = named.find('=');
  if (dot == named.npos || equals == named.npos || dot > equals)
    refuse(entry, "expected CLASS.OPERAND=RECIPE, such as experts.dY=mxfp8_e5m2_grad");
  const auto gemm_class = gemm_class_named(trimmed(named.substr(0, dot)));
  if (!gemm_class) refuse(entry, "classes are " + class_names());
  out.gemm_class = *gemm_class;
  if (colon != entry.npos && *gemm_class == GemmClass::head) refuse(entry, "the head is of no layer");
  const std::string_view of_class = named.substr(dot + 1, equals - dot - 1);
  const auto second = of_class.find('.');
  const auto operand = operand_named(trimmed(of_class.substr(0, second)));
  if (!operand) refuse(entry, "operands are x, W, dY");
  out.operand = *operand;
  if (second != of_class.npos) {
    out.gemm = direction_named(trimmed(of_class.substr(second + 1)));
    if (!out.gemm) refuse(entry, "GEMMs are forward (or fprop), dgrad, wgrad");
    if (!reads(*out.gemm, out.operand))
      refuse(entry, std::string(direction_name(*out.gemm)) + " does not read " + operand_name(out.operand) +
                        ": forward multiplies x and W, dgrad dY and W, wgrad dY and x");
  }
  std::string_view how = named.substr(equals + 1);
  const auto plus = std::min(how.find('+'), how.size());
  const auto recipe = recipe_named(trimmed(how.substr(0, plus)));
  if (!recipe) refuse(entry, "recipes are " + recipe_names());
  out.recipe = *recipe;
  parse_options(entry, how.substr(plus), out);
  return out;
}

std::string layers_text(const LayerRange& layers) {
  if (layers == LayerRange{}) return {};
  return std::to_string(layers.first) + (layers.last == layers.first ? "" : "-" + std::to_string(layers.last)) + ':';
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
    text += std::string(text.empty() ? "" : ", ") + layers_text(each.layers) + gemm_class_name(each.gemm_class) + '.' +
            operand_name(each.operand) + (each.gemm ? std::string(".") + direction_name(*each.gemm) : "") + '=' +
            recipe_info(each.recipe).name + options_text(each);
  return text;
}

}  // namespace moescope
