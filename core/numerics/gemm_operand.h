// Names of the operands of a training step's GEMMs: which product, which of its two factors, which of the three GEMMs.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/numerics/names.h"

namespace moescope {

enum class OperandRole : std::uint8_t { x, w, dy };
enum class Direction : std::uint8_t { forward, dgrad, wgrad };
// Kinds of weights whose number formats are set separately.
enum class GemmClass : std::uint8_t {
  experts,
  shared_experts,
  dense_ffn,
  attention,
  router_gate,
  head,
  payload  // not a GEMM: rows that dispatch and combine move between ranks
};
inline constexpr int kNumGemmClasses = 6;   // without payload
inline constexpr int kNumQuantClasses = 7;  // with payload

// The products of a layer, each named after its weight, and the two transfers around the routed experts. The order of
// the first 15 must not change, because the random bits of the quantizers depend on it. w3 follows w1, as in memory.
enum class Gemm : std::uint8_t {
  wq,
  wq_a,
  wq_b,
  wkv_a,
  wkv_b,
  wo,
  dense_w1,
  dense_w3,
  dense_w2,
  shared_w1,
  shared_w3,
  shared_w2,
  gate,
  output,
  expert_w1,
  expert_w3,
  expert_w2,
  dispatch,
  combine,
};
inline constexpr int kNumGemms = 19;

inline constexpr auto operand_name = names_of<OperandRole>("x", "W", "dY");
inline constexpr auto direction_name = names_of<Direction>("forward", "dgrad", "wgrad");
// As the keys in [precision].
inline constexpr auto gemm_class_name =
    names_of<GemmClass>("experts", "shared_experts", "dense_ffn", "attention", "router_gate", "head", "payload");
GemmClass gemm_class_of(Gemm gemm);
const char* gemm_name(Gemm gemm);  // within its class: "wq", "w1", "dispatch"
// Returns nullopt if the class has no GEMM of this name.
std::optional<Gemm> find_gemm(GemmClass gemm_class, std::string_view name);

// Names an operand of a GEMM of the model, for QuantFrames and captures.
struct OperandPlace {
  int layer = 0;  // -1 if not of a layer (head)
  Gemm gemm = Gemm::expert_w1;
  OperandRole operand = OperandRole::x;
  Direction direction = Direction::forward;
  GemmClass gemm_class() const { return gemm_class_of(gemm); }
  bool operator==(const OperandPlace&) const = default;
};

// "layer 3, experts w1, x forward"
inline std::string place_text(const OperandPlace& place) {
  const std::string layer = place.layer < 0 ? "" : fmt::format("layer {}, ", place.layer);
  return layer + gemm_class_name(place.gemm_class()) + ' ' + gemm_name(place.gemm) + ", " +
         operand_name(place.operand) + ' ' + direction_name(place.direction);
}

}  // namespace moescope
