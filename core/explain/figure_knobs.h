// Which settings move a figure: the explain cards name them with their present values.
#pragma once

#include <string>
#include <vector>

#include "core/config/config_field.h"
#include "core/frame/metrics.h"

namespace moescope {

// Those that move it most first; empty: none does.
const std::vector<Setting>& knobs_of(FigureKey figure);
// Whether the sizes of the model move it, too.
bool depends_on_model_sizes(FigureKey figure);
// "router.aux_mode, router.aux_coeff"; empty: none.
std::string knobs_text(FigureKey figure);

}  // namespace moescope
