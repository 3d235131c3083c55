// The presets that are small versions of published models, and the settings in which they differ.
#pragma once

#include <string>
#include <vector>

#include "core/config/config_field.h"

namespace moescope {

// Returns the names in the order in which their new techniques were published: assets/presets/<name>.toml.
std::vector<std::string> model_preset_names();

// One setting in which the presets differ.
struct PresetSetting {
  Setting setting;
  std::vector<std::string> values;  // by preset; empty if the setting has no effect there
};
// Returns the settings of the model and the router in which the presets differ, in the order of config_fields(). Values
// without effect, such as the weight of a loss that is off, are empty.
std::vector<PresetSetting> model_preset_table();

}  // namespace moescope
