// The operands of a training step's GEMMs: which weights, which of the two factors, of which of the three products.
#pragma once

#include <cstdint>

namespace moescope {

enum class Operand : std::uint8_t { x, w, dy };
enum class Direction : std::uint8_t { forward, dgrad, wgrad };
enum class ExpertWeight : std::uint8_t { w1, w2, w3 };
// Kinds of weights that take a number format of their own.
enum class GemmClass : std::uint8_t {
  experts,
  shared_experts,
  dense_ffn,
  attention,
  router_gate,
  head,
  payload  // not a GEMM: the rows that dispatch and combine carry between ranks
};
inline constexpr int kNumGemmClasses = 6;   // without the payload
inline constexpr int kNumQuantClasses = 7;  // with it
const char* operand_name(Operand operand);
const char* direction_name(Direction direction);
const char* expert_weight_name(ExpertWeight weight);
const char* gemm_class_name(GemmClass gemm_class);  // as the key in [precision]

}  // namespace moescope
