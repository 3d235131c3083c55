// What the quantizers of one training step do: the formats of every GEMM's operands, where their random bits come from,
// and where their statistics go.
//
// Three GEMMs per weight (core/numerics/recipes.h). The six operands are quantized each on its own:
//   0 forward x, 1 forward W, 2 dgrad dY, 3 dgrad W, 4 wgrad dY, 5 wgrad x
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "core/config/run_config.h"
#include "core/frame/operand_place.h"
#include "core/numerics/recipes.h"

namespace moescope {

struct GemmOperand {
  Direction direction;
  OperandRole operand;
};
inline constexpr std::array<GemmOperand, 6> kGemmOperands = {{{Direction::forward, OperandRole::x},
                                                              {Direction::forward, OperandRole::w},
                                                              {Direction::dgrad, OperandRole::dy},
                                                              {Direction::dgrad, OperandRole::w},
                                                              {Direction::wgrad, OperandRole::dy},
                                                              {Direction::wgrad, OperandRole::x}}};
constexpr std::size_t operand_index(Direction direction, OperandRole operand) {
  const bool second = direction == Direction::forward ? operand == OperandRole::w : operand != OperandRole::dy;
  return 2 * static_cast<std::size_t>(direction) + (second ? 1 : 0);
}

// The GEMMs of one class of weights in one step.
struct ClassPrecision {
  std::array<OperandFormat, 6> formats{};
  bool plain = true;       // all operands are
  std::uint64_t seed = 0;  // of the run and the step

  const OperandFormat& format(Direction direction, OperandRole operand) const {
    return formats[operand_index(direction, operand)];
  }
};

// All classes of one layer in one step.
struct StepPrecision {
  std::array<ClassPrecision, kNumGemmClasses> classes;
  bool plain = true;
  const ClassPrecision& of(GemmClass gemm_class) const { return classes[static_cast<std::size_t>(gemm_class)]; }
};
// Of one layer, 0 to n_layers - 1; the head's is that of any.
StepPrecision step_precision(const RunConfig& run, std::int64_t step, int layer);

// Hashes several numbers into one.
std::uint64_t hash_of(std::initializer_list<std::uint64_t> values);

// The GEMM that holds the statistics of its x: w3 multiplies the same x as w1.
Gemm source_of_x(Gemm gemm);

// Of the operands of one GEMM, by operand_index, and of all those of a layer, by Gemm.
using GemmSums = std::array<QuantSums, 6>;
using LayerSums = std::array<GemmSums, kNumGemms>;

// An operand of every layer that has it.
struct ModelOperand {
  Gemm gemm;
  GemmOperand at;
};
// What ranks send each other for the routed experts of a layer: inputs and outputs, and in the backward pass the
// gradients of both.
inline constexpr ModelOperand kDispatch{Gemm::dispatch, {Direction::forward, OperandRole::x}};
inline constexpr ModelOperand kCombine{Gemm::combine, {Direction::forward, OperandRole::x}};
inline constexpr ModelOperand kCombineGradient{Gemm::combine, {Direction::dgrad, OperandRole::dy}};
inline constexpr ModelOperand kDispatchGradient{Gemm::dispatch, {Direction::dgrad, OperandRole::dy}};
OperandFormat transfer_format(TokenPayload payload, ModelOperand transfer);

class OperandTap;

// How linear.h quantizes around one weight, or around several of equal size stacked along its outputs (w1 and w3),
// each of which has scales, random bits and sums of its own; and in which order it adds.
struct LinearPrecision {
  const ClassPrecision* formats = nullptr;  // nullptr: operands as they are
  std::uint64_t stream = 0;                 // one for each weight of the model
  GemmSums* sums = nullptr;                 // [stacked]; nullptr: nobody counts
  int stacked = 1;
  OperandTap* tap = nullptr;  // of operand x, or of the part `tapped`; nullptr: nobody looks
  int tapped = 0;
  int shard_rows = 0;         // rows of a shard (batch_part.h); 0: all rows are one
  std::size_t first_row = 0;  // of the first row here in the whole batch

  RoundingKey key(Direction direction, OperandRole operand, int part) const;
};

// The weights of one layer.
struct LayerPrecision {
  const StepPrecision* step = nullptr;  // nullptr: operands as they are
  int layer = 0;
  LayerSums* sums = nullptr;  // nullptr: nobody counts
  OperandTap* tap = nullptr;  // nullptr: nobody looks
  int shard_rows = 0;         // as LinearPrecision's
  std::size_t first_row = 0;

  LinearPrecision of(Gemm first, int stacked = 1) const;
};

}  // namespace moescope
