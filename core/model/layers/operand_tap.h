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
  // The GEMM whose operand is captured: that of the place, but w1's for x of w3, which is quantized with it.
  Gemm source() const { return source_; }
  // Index among `stacked` weights that begin with `first`; -1 if it is none of them.
  int part_of(int layer, Gemm first, int stacked) const;

  // Copies rows of `expert` from its row key.first_row on, or all rows if expert is -1. May be called from any thread;
  // rows that come twice are copied once. The operand must not have halves.
  template <class T>
  void take(const Operand<T>& operand, int expert);

  // Returns the captured operand after the step; nullopt if the model has no such operand. Of its labels only `place`
  // is set.
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
