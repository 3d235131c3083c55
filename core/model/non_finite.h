// Finds the place where the first NaN or infinity of a step arose, in the order of computation: forward, then backward.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/run_config.h"
#include "core/numerics/gemm_operand.h"
#include "core/numerics/matrix.h"

namespace moescope {

template <class T>
class Learner;

// The place of the first value of a step that is not finite, and the operands of the GEMM in which it arose.
struct NonFinitePlace {
  int layer = -1;             // -1 if the tensor belongs to no layer, such as the head
  std::string tensor;         // "w1 and w3 x", "gradient of layers.1.moe.experts.w2"
  int expert = -1;            // routed expert; -1 if the tensor belongs to none
  Index row = 0, column = 0;  // in the tensor; rows of an expert are counted from its first
  float value = 0;

  std::string text() const;  // "layer 1, w1 and w3 x, expert 5, row 17, column 3: NaN"
};

// Reads the result of NonFinitePlace::text(); nullopt for any other text.
std::optional<NonFinitePlace> non_finite_in(std::string_view text);

// Beginning of the text of the step's event (Marker::text). NonFinitePlace::text() follows.
inline constexpr std::string_view kFirstNonFinite = "the first value that is not finite: ";

// A part of a captured operand: an element, or a whole row or column.
struct OperandElement {
  OperandPlace place;
  int expert = -1;              // routed expert from whose first row `row` is counted; -1: no routed expert
  Index row = -1, column = -1;  // -1: all
  bool operator==(const OperandElement&) const = default;
};

// Returns the operand that holds the value. If the value is an element of a product, returns its factors: the row of x
// and the row of W, or, for the gradient of a weight, the columns of dY and x. Returns no operand for tensors that no
// GEMM reads or writes, such as gains of norms.
std::vector<OperandElement> operands_at(const NonFinitePlace& at, const ModelConfig& model);

// Searches the activations and gradients of the learner's last step. Returns nullopt if all of them are finite, for
// example if the update made the first weight that is not finite.
std::optional<NonFinitePlace> first_non_finite(const Learner<float>& learner);

}  // namespace moescope
