// What the callers of LiveRuns ask of its training thread (live_thread.h), which serves it between two steps. A request
// is checked when it is made; by the time it is served, its run may have been removed.
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
  RunConfig config;  // at its first step
  Inheritance inheritance;
  CheckpointRing::Snapshot from;  // nullptr: the beginning
  std::string text;               // of a marker; empty: none
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
  std::map<int, CheckpointRing::Snapshot> runs;  // nullptr: the run is not that far yet
};

using LiveRequest = std::variant<PinnedChange, SaveRequest, AddRunRequest, RemoveRunRequest, CaptureRequest,
                                 KeepCheckpointRequest, RewindRequest>;

}  // namespace moescope
