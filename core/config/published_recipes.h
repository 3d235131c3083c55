// Precision settings of papers and training frameworks, by name: assets/recipes/<name>.toml, each with a section
// [precision] and a comment that names the source and what this program cannot reproduce.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/run_config.h"

namespace moescope {

// Returns the names in alphabetical order.
std::vector<std::string_view> published_recipe_names();
std::string published_recipe_about(std::string_view name);  // empty if there is no such recipe

// Sets all members of `precision` except the payload, which belongs to the all-to-all. `name` is one of
// published_recipe_names().
void apply_published_recipe(std::string_view name, PrecisionConfig& precision);
// Returns the name of the recipe that has these settings; empty if there is none.
std::string published_recipe_of(const PrecisionConfig& precision);

}  // namespace moescope
