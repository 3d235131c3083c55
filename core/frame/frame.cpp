#include "core/frame/frame.h"

#include <algorithm>
#include <cctype>

namespace moescope {

const char* phase_name(Phase phase) {
  static constexpr const char* kNames[kNumPhases] = {"data",      "attention", "router",    "dispatch",
                                                     "experts",   "combine",   "dense FFN", "head",
                                                     "optimizer", "telemetry", "other"};
  return kNames[static_cast<int>(phase)];
}

std::string phase_key(Phase phase) {
  std::string key = phase_name(phase);
  for (char& c : key) c = c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return key;
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

const char* router_rounding_name(RouterRounding rounding) {
  static constexpr const char* kNames[kNumRouterRoundings] = {"none", "operands", "gate output", "bias", "counts"};
  return kNames[static_cast<int>(rounding)];
}

const RouterFrame* find_router(const TelemetryFrame* frame, int layer) {
  if (!frame) return nullptr;
  const auto found = std::ranges::find(frame->routers, layer, &RouterFrame::layer);
  return found == frame->routers.end() ? nullptr : &*found;
}

}  // namespace moescope
