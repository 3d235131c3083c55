// How a step of an open run is computed again: from the training's or the recording's checkpoints, on the batches that
// the run read.
#pragma once

#include "core/training/engine/recompute.h"

namespace moescope {

class RunSession;

// `run`: one of the session's histories. Throws what plan_recompute() throws.
RecomputePlan planOfStep(const RunSession& session, const History& run, const OperandPlace& place, std::int64_t step);

}  // namespace moescope
