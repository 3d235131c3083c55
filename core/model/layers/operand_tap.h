// Captures one operand of one GEMM just before it is quantized. Nothing else in the step changes.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "core/model/layers/captured_operand.h"
#include "core/model/layers/precision.h"
#include "core/numerics/operand.h"

namespace moescope {

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
