// Captures one operand of one GEMM just before it is quantized. Nothing else in the step changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/model/layers/precision.h"
#include "core/numerics/gemm_operand.h"
#include "core/numerics/operand.h"

namespace moescope {

// Rows that were quantized in one call.
struct QuantizerCall {
  int expert = -1;  // -1 if not of a routed expert
  std::size_t first_row = 0, rows = 0;
  RoundingKey key;
};

// An operand with all arguments of its quantizer, so that it can be quantized again, bit for bit, as a whole or expert
// by expert.
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

// Returns the operand after its Hadamard rotation, as its quantizer reads it, with a format without rotation. Its
// statistics do not change.
CapturedOperand rotated(CapturedOperand captured);

// Writes one safetensors file: the tensor in F32, "expert_rows" if there are any, and everything else as metadata.
// Throws std::runtime_error if it cannot be written.
void save_captured(const CapturedOperand& captured, const std::string& path);

class OperandTap {
 public:
  explicit OperandTap(const OperandPlace& place);

  const OperandPlace& place() const { return place_; }
  bool is_of(int layer, GemmClass gemm_class) const;
  bool is(Direction direction, OperandRole operand) const {
    return direction == place_.direction && operand == place_.operand;
  }
  // Returns the GEMM whose operand is captured: that of the place, but w1's for the x of w3, because w1 and w3 have the
  // same x.
  Gemm source() const { return source_; }
  // Returns the index of source() among the `stacked` GEMMs of a layer that begin with `first`; -1 if it is not one of
  // them.
  int part_of(int layer, Gemm first, int stacked) const;

  // Copies rows of `expert` from its row key.first_row on, or all rows if expert is -1. May be called from any thread.
  // Rows that are passed twice are copied once. The operand must not have halves.
  template <class T>
  void take(const Operand<T>& operand, int expert);

  // Call it after the step. Returns the captured operand; nullopt if the model has no such operand. The caller sets
  // run, run_name, step and ahead.
  std::optional<CapturedOperand> finish(int n_experts);

 private:
  struct Piece {
    QuantizerCall call;
    std::vector<float> values;
  };
  OperandPlace place_;
  Gemm source_;
  std::mutex mutex_;
  std::vector<Piece> pieces_;
  OperandFormat format_;
  BlockAxis axis_ = BlockAxis::row;
  std::size_t cols_ = 0;
};

}  // namespace moescope
