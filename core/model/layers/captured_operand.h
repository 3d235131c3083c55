// One operand of one GEMM before quantization, with all arguments of its quantizer: enough to quantize it again, bit
// for bit, as a whole or expert by expert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/frame/operand_place.h"
#include "core/numerics/operand.h"

namespace moescope {

// Rows that went through the quantizer together.
struct QuantizerCall {
  int expert = -1;  // -1: not of a routed expert
  std::size_t first_row = 0, rows = 0;
  RoundingKey key;
};

struct CapturedOperand {
  OperandPlace place;
  int run = 0;  // RunInfo::run
  std::string run_name;
  std::int64_t step = 0;
  bool ahead = false;    // from a step that the run has not taken yet, computed for display only
  OperandFormat format;  // that it was quantized to; fp32: it was not
  BlockAxis axis = BlockAxis::row;
  std::size_t rows = 0, cols = 0;
  std::vector<float> values;  // rows x cols; of routed experts one below the other
  // First row of each expert and the end, [E + 1]; empty: not of the routed experts. No block crosses them.
  std::vector<std::size_t> expert_rows;
  std::vector<QuantizerCall> calls;  // in the order in which their statistics were added up
  QuantSums sums;                    // of the whole operand, by quantizer_sums()
};

// What the quantizer counted: the numbers from which the step's QuantFrame was made.
QuantSums quantizer_sums(const CapturedOperand& captured);
// The same of each routed expert by itself, [E]; empty without routed experts.
std::vector<QuantSums> expert_sums(const CapturedOperand& captured);

// The operand after its rotation, as its quantizer saw it, in a format without rotation: every figure stays the same.
CapturedOperand rotated(CapturedOperand captured);

// Writes one safetensors file: the tensor in F32, "expert_rows" if it has them, and everything else as metadata. Throws
// std::runtime_error when it cannot be written.
void save_captured(const CapturedOperand& captured, const std::string& path);

}  // namespace moescope
