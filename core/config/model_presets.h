// The presets that are real models in miniature, and in which settings they differ.
#pragma once

#include <string>
#include <vector>

#include "core/config/config_field.h"

namespace moescope {

// In order of publication of what they brought: assets/presets/<name>.toml.
std::vector<std::string> model_preset_names();

// One setting in which they differ.
struct PresetSetting {
  Setting setting;
  std::vector<std::string> values;  // by preset; empty where it has no effect there
};
// Of the model and the router, in the order of config_fields(). Weights of losses that are off, and the like, are left
// empty.
std::vector<PresetSetting> model_preset_table();

}  // namespace moescope
