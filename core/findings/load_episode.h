// A past condition of a layer's load.
#pragma once

#include "core/findings/findings.h"

namespace moescope {

struct LoadEpisode {
  FindingKind kind;
  StepRange steps;
  int expert = -1;     // if the episode is about one expert
  double max_vio = 0;  // for an oscillation: mean over its batches
};

}  // namespace moescope
