// Settings of the quantizers of one training step: the formats of every GEMM's operands, the source of their random
// bits, and where their statistics are added.
//
// Besides operands, values between operations may be stored in BF16 (StoredFormat). The operation that computes them
// rounds them:
//   gate_output  the router's logits, and their gradient
//   activations  the output of a GEMM that is not plain and its gradient dX; outputs of attention, SwiGLU and norms.
//                A sum of FP32 numbers is rounded once; an output that is added to others is rounded before that
//   residual     the residual stream after every sub-layer, and its gradient
//   norm_gains   the gains of norms; the layers use rounded copies
// Weight gradients stay in FP32, as in frameworks that accumulate them in FP32.
//
// Each weight has three GEMMs (core/numerics/recipes.h). Their six operands are quantized separately:
//   0 forward x, 1 forward W, 2 dgrad dY, 3 dgrad W, 4 wgrad dY, 5 wgrad x
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "core/config/run_config.h"
#include "core/numerics/gemm_operand.h"
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

// Precision of the GEMMs of one class of weights in one step.
struct ClassPrecision {
  std::array<OperandFormat, 6> formats{};
  bool plain = true;         // all operands are plain (is_plain())
  bool bf16_output = false;  // y and dX are rounded
  std::uint64_t seed = 0;    // hash of the run's seed and the step

  const OperandFormat& format(Direction direction, OperandRole operand) const {
    return formats[operand_index(direction, operand)];
  }
};

// Precision of all classes of one layer in one step.
struct StepPrecision {
  std::array<ClassPrecision, kNumGemmClasses> classes;
  bool plain = true;
  bool bf16_activations = false, bf16_residual = false, bf16_norm_gains = false;
  const ClassPrecision& class_precision(GemmClass gemm_class) const {
    return classes[static_cast<std::size_t>(gemm_class)];
  }
};
// `layer` is 0 to n_layers - 1, or n_layers for the head, whose precision is the same for every `layer`.
StepPrecision step_precision(const RunConfig& run, std::int64_t step, int layer);

// Hashes several numbers into one.
std::uint64_t hash_of(std::initializer_list<std::uint64_t> values);

// Returns the GEMM that has the statistics of the x of `gemm`: w1 for w3, which has the same x, otherwise `gemm`.
Gemm source_of_x(Gemm gemm);

// Sums for the operands of one GEMM, by operand_index, and for all GEMMs of a layer, by Gemm.
using GemmSums = std::array<QuantSums, 6>;
using LayerSums = std::array<GemmSums, kNumGemms>;

// An operand in any layer.
struct ModelOperand {
  Gemm gemm;
  GemmOperand at;
};
// The rows that ranks send each other for the routed experts of a layer: inputs and outputs, and in the backward pass
// the gradients of both.
inline constexpr ModelOperand kDispatch{Gemm::dispatch, {Direction::forward, OperandRole::x}};
inline constexpr ModelOperand kCombine{Gemm::combine, {Direction::forward, OperandRole::x}};
inline constexpr ModelOperand kCombineGradient{Gemm::combine, {Direction::dgrad, OperandRole::dy}};
inline constexpr ModelOperand kDispatchGradient{Gemm::dispatch, {Direction::dgrad, OperandRole::dy}};
OperandFormat transfer_format(TokenPayload payload, ModelOperand transfer);

class OperandTap;

// Quantization by linear.h of the operands of one weight, or of several weights of equal size that are stacked along
// their outputs (w1 and w3), each with its own scales, random bits and statistics; and the order in which sums over
// tokens are added.
struct LinearPrecision {
  const ClassPrecision* formats = nullptr;  // nullptr: no quantization
  std::uint64_t stream = 0;                 // one for each weight of the model
  std::span<GemmSums> sums = {};            // [stacked]; empty: no statistics
  int stacked = 1;
  OperandTap* tap = nullptr;  // captures an operand: x, or the part `tapped` of w or dy; may be nullptr
  int tapped = 0;
  bool bf16_output = false;   // y and dX are rounded
  int shard_rows = 0;         // rows of a shard (batch_part.h); 0: all rows are one shard
  std::size_t first_row = 0;  // index of this rank's first row in the whole batch

  RoundingKey key(Direction direction, OperandRole operand, int part) const;
};

// Precision of the weights of one layer.
struct LayerPrecision {
  const StepPrecision* step = nullptr;  // nullptr: no quantization
  int layer = 0;
  LayerSums* sums = nullptr;  // nullptr: no statistics
  OperandTap* tap = nullptr;  // may be nullptr
  int shard_rows = 0;         // see LinearPrecision
  std::size_t first_row = 0;

  LinearPrecision linear_precision(Gemm first, int stacked = 1) const;
};

}  // namespace moescope
