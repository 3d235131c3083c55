// Numbers of steps in words.
#pragma once

#include "widgets/selection/selection.h"

namespace moescope {

// "50 steps"; of a checkpoint, whose steps are batches of text, "50 batches".
inline QString stepCount(const Selection& selection, int steps) {
  return QString("%1 %2").arg(steps).arg(selection.stepWord() == "batch" ? QString("batches") : QString("steps"));
}

}  // namespace moescope
