// Requests by the callers of LiveRuns to its training thread (live_thread.h), which serves them between two steps. A
// request is checked when it is made; until it is served, its run may have been removed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>

#include "core/frame/operand_place.h"
#include "core/training/capture.h"
#include "core/training/engine/change_log.h"
#include "core/training/engine/checkpoint_ring.h"

namespace moescope {

struct SaveRequest {
  std::string directory;
};
struct AddRunRequest {
  int number = 0;
  RunConfig config;  // at the first step of the run
  Inheritance inheritance;
  CheckpointRing::Snapshot from;  // nullptr: step 0
  std::string text;               // text of a marker; empty: no marker
};
struct RemoveRunRequest {
  int number;
};
struct CaptureRequest {
  int run;
  OperandPlace place;
  std::shared_ptr<Capture> capture;
};
struct KeepCheckpointRequest {};
struct RewindRequest {
  std::int64_t step;
  std::map<int, CheckpointRing::Snapshot> runs;  // nullptr: the run has not reached the step
};

using LiveRequest = std::variant<PinnedChange, SaveRequest, AddRunRequest, RemoveRunRequest, CaptureRequest,
                                 KeepCheckpointRequest, RewindRequest>;

}  // namespace moescope
