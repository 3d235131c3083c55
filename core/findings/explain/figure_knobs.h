// Settings that affect a figure; the explain cards list them with their present values.
#pragma once

#include <string>
#include <vector>

#include "core/config/config_field.h"
#include "core/frame/metrics.h"

namespace moescope {

// Returns the settings that affect a figure, strongest effect first; empty if there are none.
const std::vector<Setting>& knobs_of(FigureKey figure);
// True if the sizes of the model affect the figure as well.
bool depends_on_model_sizes(FigureKey figure);
// Returns the keys as text, "router.aux_mode, router.aux_coeff"; empty if nothing affects the figure.
std::string knobs_text(FigureKey figure);

}  // namespace moescope
