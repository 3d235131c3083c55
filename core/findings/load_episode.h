// Something that went on with the load of a layer for a while and is over.
#pragma once

#include "core/findings/findings.h"

namespace moescope {

struct LoadEpisode {
  FindingKind kind;
  StepRange steps;
  int expert = -1;     // of an episode of one expert
  double max_vio = 0;  // of an oscillation: mean of its batches
};

}  // namespace moescope
