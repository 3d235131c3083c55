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

const char* operand_name(Operand operand) {
  static constexpr const char* kNames[] = {"x", "W", "dY"};
  return kNames[static_cast<int>(operand)];
}

const char* direction_name(Direction direction) {
  static constexpr const char* kNames[] = {"forward", "dgrad", "wgrad"};
  return kNames[static_cast<int>(direction)];
}

const char* expert_weight_name(ExpertWeight weight) {
  static constexpr const char* kNames[] = {"w1", "w2", "w3"};
  return kNames[static_cast<int>(weight)];
}

const char* gemm_class_name(GemmClass gemm_class) {
  static constexpr const char* kNames[kNumQuantClasses] = {"experts",     "shared_experts", "dense_ffn", "attention",
                                                           "router_gate", "head",           "payload"};
  return kNames[static_cast<int>(gemm_class)];
}

std::string gemm_name(const QuantFrame& quant) {
  return quant.gemm_class == GemmClass::experts ? expert_weight_name(quant.weight) : quant.gemm;
}

const char* gradient_group_name(GradientGroup group) {
  static constexpr const char* kNames[kNumGradientGroups] = {
      "attention", "router gate", "routed experts", "FFN", "embedding", "head", "all"};
  return kNames[static_cast<int>(group)];
}

}  // namespace moescope
