#include "core/config/published_recipes.h"

#include <algorithm>
#include <cassert>
#include <map>

#include "core/config/config_toml.h"
#include "core/files/assets.h"
#include "core/files/text/toml_section.h"

namespace moescope {
namespace {

constexpr std::string_view kFolder = "recipes/", kEnding = ".toml";

std::string file_of(std::string_view name) {
  return std::string(kFolder) + std::string(name) + std::string(kEnding);
}

// Parses the recipes once, because the form looks up the name of its settings after every edit.
const PrecisionConfig& recipe_of(std::string_view name) {
  static const auto all = [] {
    std::map<std::string_view, PrecisionConfig> recipes;
    for (const std::string_view recipe_name : published_recipe_names()) {
      const ParsedConfig parsed = parse_config(asset(file_of(recipe_name)), file_of(recipe_name));
      assert(parsed.problems.empty());
      recipes[recipe_name] = parsed.config.precision;
    }
    return recipes;
  }();
  return all.at(name);
}

}  // namespace

std::vector<std::string_view> published_recipe_names() {
  std::vector<std::string_view> names;
  for (const Asset& file : assets()) {
    if (!file.name.starts_with(kFolder) || !file.name.ends_with(kEnding)) continue;
    names.push_back(file.name.substr(kFolder.size(), file.name.size() - kFolder.size() - kEnding.size()));
  }
  std::ranges::sort(names);
  return names;
}

std::string published_recipe_about(std::string_view name) {
  return leading_comment(asset(file_of(name)));
}

void apply_published_recipe(std::string_view name, PrecisionConfig& precision) {
  const TokenPayload payload = precision.payload;
  precision = recipe_of(name);
  precision.payload = payload;
}

std::string published_recipe_of(const PrecisionConfig& precision) {
  for (const std::string_view name : published_recipe_names()) {
    PrecisionConfig published = precision;
    apply_published_recipe(name, published);
    if (published == precision) return std::string(name);
  }
  return {};
}

}  // namespace moescope
