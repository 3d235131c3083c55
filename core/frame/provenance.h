// Kinds of numbers by their origin. Every number on the screen shows its kind.
#pragma once

#include "core/numerics/names.h"

namespace moescope {

enum class Provenance { measured_here, from_log, measured_elsewhere, counted, modelled, fitted, assumed, published };
inline constexpr int kNumProvenances = 8;
inline constexpr auto provenance_name = names_of<Provenance>("measured here", "from the log", "measured elsewhere",
                                                             "counted", "modelled", "fitted", "assumed", "published");

}  // namespace moescope
