// Which settings a set-up offers.
#pragma once

#include "core/config/config_field.h"

namespace moescope {

// False for settings that cannot matter: those of another bias rule, and faults that `config` does not have. Faults of
// trainings are for exhibits (assets/exhibits), which state them.
bool is_offered(const ConfigField& field, const RunConfig& config);

}  // namespace moescope
