// One operand of one GEMM before quantization, with all arguments of its quantizer, so that it can be quantized again,
// bit for bit, as a whole or expert by expert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/frame/operand_place.h"
#include "core/numerics/operand.h"

namespace moescope {

// Rows that were quantized in one call.
struct QuantizerCall {
  int expert = -1;  // -1 if not of a routed expert
  std::size_t first_row = 0, rows = 0;
  RoundingKey key;
};

struct CapturedOperand {
  OperandPlace place;
  int run = 0;  // RunInfo::run
  std::string run_name;
  std::int64_t step = 0;
  bool ahead = false;    // from a step that the run has not taken yet, computed only for display
  OperandFormat format;  // format of the quantizer; fp32 if it was not quantized
  BlockAxis axis = BlockAxis::row;
  std::size_t rows = 0, cols = 0;
  std::vector<float> values;  // rows x cols; rows of routed experts are one below the other
  // [E + 1]: first row of each expert, and the end; no block crosses these limits. Empty if the operand is not of the
  // routed experts.
  std::vector<std::size_t> expert_rows;
  std::vector<QuantizerCall> calls;  // calls in the order in which their statistics were added
  QuantSums sums;                    // over the whole operand, by quantizer_sums()
};

// Returns the statistics of the quantizer, from which the step's QuantFrame was made.
QuantSums quantizer_sums(const CapturedOperand& captured);
// Returns the statistics of each routed expert, [E]; empty without routed experts.
std::vector<QuantSums> expert_sums(const CapturedOperand& captured);

// Returns the operand after its Hadamard rotation, as its quantizer reads it, with a format without rotation. Its
// statistics do not change.
CapturedOperand rotated(CapturedOperand captured);

// Writes one safetensors file: the tensor in F32, "expert_rows" if there are any, and everything else as metadata.
// Throws std::runtime_error if it cannot be written.
void save_captured(const CapturedOperand& captured, const std::string& path);

}  // namespace moescope
