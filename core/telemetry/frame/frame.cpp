#include "core/telemetry/frame/frame.h"

namespace moescope {

const char* phase_name(Phase phase) {
  static constexpr const char* kNames[kNumPhases] = {"data",      "attention", "router",    "dispatch",
                                                     "experts",   "combine",   "dense FFN", "head",
                                                     "optimizer", "telemetry", "other"};
  return kNames[static_cast<int>(phase)];
}

const char* text_kind_name(TextKind kind) {
  static constexpr const char* kNames[kNumTextKinds] = {"probe", "sample", "batch"};
  return kNames[static_cast<int>(kind)];
}

const char* gradient_group_name(GradientGroup group) {
  static constexpr const char* kNames[kNumGradientGroups] = {
      "attention", "router gate", "routed experts", "FFN", "embedding", "head", "all"};
  return kNames[static_cast<int>(group)];
}

}  // namespace moescope
