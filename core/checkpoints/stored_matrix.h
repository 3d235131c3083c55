// A weight that stays in its file, mapped, in the format in which it is stored; a piece at a time becomes FP32 when it
// is multiplied. Values are those of TensorView::floats(), bit for bit.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "core/model/layers/linear.h"
#include "core/numerics/float_formats.h"
#include "core/numerics/matrix.h"
#include "core/numerics/number_format.h"
#include "core/tensors/tensor_file.h"

namespace moescope {

// Set when pages of a mapped file were gone while it was read: another program has shortened it. Loops of several
// threads cannot throw, so who began them asks afterwards.
using LostPages = std::shared_ptr<std::atomic<bool>>;

// A matrix, or one of a stack of matrices.
class StoredMatrix {
 public:
  StoredMatrix() = default;
  // Matrix `index` of a tensor of two or three dimensions, which must outlive it. `across`: its rows are the inputs of
  // the layer, not the outputs.
  StoredMatrix(const TensorView& tensor, Index index, bool across, LostPages lost);

  Index outputs() const { return across_ ? cols_ : rows_; }
  Index inputs() const { return across_ ? rows_ : cols_; }
  bool across() const { return across_; }
  bool empty() const { return rows_ == 0; }
  const TensorView& tensor() const { return *tensor_; }

  // The outputs [first, first + count): [count, inputs], or [inputs, count] where it lies across. N is float, or Bf16:
  // rounded, but weights that are stored so are copied. Any thread.
  template <class N>
  void read_outputs(Index first, Index count, N* to) const;
  // y_TO = x_TI W_OI^T of the outputs from `first` on, straight from the file; false: only for BF16 without scales, on
  // even addresses, that does not lie across. Any thread.
  bool multiply_mapped(ConstMatrix<float> x, Index first, Matrix<float> y) const;

 private:
  const TensorView* tensor_ = nullptr;
  std::size_t first_ = 0;  // element
  Index rows_ = 0, cols_ = 0;
  bool across_ = false;
  LostPages lost_;
};

// How products with weights are computed. bf16: both operands are rounded to BF16, as in a model that runs in BF16, and
// added in FP32; by the processor's matrix units where it has them (core/numerics/matrix_units.h).
enum class Arithmetic : std::uint8_t { fp32, bf16 };

// What both operands are rounded to before they are multiplied, in blocks along the inputs (core/numerics/quantize.h);
// then the product is FP32's, whatever the arithmetic.
struct OperandRounding {
  OperandFormat x = {.scheme = QuantScheme::fp32}, w = {.scheme = QuantScheme::fp32};
  bool rounds() const { return x.scheme != QuantScheme::fp32 || w.scheme != QuantScheme::fp32; }
};

// A linear layer whose weight is stored. Products are cut into tasks by outputs, whose sizes follow from the shapes
// alone.
struct StoredLinear final : LinearLayer<float> {
  StoredLinear() = default;
  explicit StoredLinear(StoredMatrix w, Arithmetic products = Arithmetic::fp32,
                        const OperandRounding* operands = nullptr)
      : weight(std::move(w)), arithmetic(products), rounding(operands) {}

  StoredMatrix weight;
  std::vector<float> bias;  // [outputs]; empty: none
  Arithmetic arithmetic = Arithmetic::fp32;
  const OperandRounding* rounding = nullptr;  // nullptr: never any
  float added_factor = 1;                     // of outputs that are added to others

  bool empty() const { return weight.empty(); }
  Index outputs() const { return weight.outputs(); }
  Index inputs() const { return weight.inputs(); }
  void forward(ConstMatrix<float> x, Matrix<float> y, bool accumulate = false) const override;
};

}  // namespace moescope
