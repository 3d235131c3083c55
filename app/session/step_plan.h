// Plans how to recompute a step of an open run: from checkpoints of the training or the recording, on the batches that
// the run read.
#pragma once

#include "core/training/engine/recompute.h"

namespace moescope {

class RunSession;

// `run`: one of the session's histories. Throws the exceptions of plan_recompute().
RecomputePlan planOfStep(const RunSession& session, const History& run, const OperandPlace& place, std::int64_t step);

}  // namespace moescope
