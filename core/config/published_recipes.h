// Precision as papers and training frameworks set it, by name: assets/recipes/<name>.toml, each a [precision] and a
// comment that says where it comes from and what of it this program cannot do.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/run_config.h"

namespace moescope {

// In alphabetical order.
std::vector<std::string_view> published_recipe_names();
std::string published_recipe_about(std::string_view name);  // empty: there is none of this name

// Sets all but the payload, which is the all-to-all's. `name`: one of published_recipe_names().
void apply_published_recipe(std::string_view name, PrecisionConfig& precision);
// The recipe that these settings are; empty: of none.
std::string published_recipe_of(const PrecisionConfig& precision);

}  // namespace moescope
