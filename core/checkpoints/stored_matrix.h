// A weight that stays in its mapped file, in its stored format. A product converts a piece of it to FP32 at a time.
// Values equal those of TensorView::floats(), bit for bit.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/files/tensors/tensor_file.h"
#include "core/model/layers/linear.h"
#include "core/numerics/float_formats.h"
#include "core/numerics/matrix.h"
#include "core/numerics/number_format.h"

namespace moescope {

// Why weights could not be read: another program shortened their file, or a scale is damaged. Parallel loops cannot
// throw, so the caller of a loop asks afterwards. Any thread may call the functions.
class ReadFailure {
 public:
  void set(const std::string& reason);  // the first reason is kept
  std::string reason() const;           // "" if all weights could be read

 private:
  mutable std::mutex mutex_;
  std::string reason_;
  std::atomic<bool> failed_ = false;
};
using SharedFailure = std::shared_ptr<ReadFailure>;

// A matrix, or one of a stack of matrices.
class StoredMatrix {
 public:
  StoredMatrix() = default;
  // Matrix `index` of a tensor of two or three dimensions, which must outlive the matrix. `transposed`: stored as
  // [inputs, outputs].
  StoredMatrix(const TensorView& tensor, Index index, bool transposed, SharedFailure failure);

  Index outputs() const { return transposed_ ? cols_ : rows_; }
  Index inputs() const { return transposed_ ? rows_ : cols_; }
  bool transposed() const { return transposed_; }
  bool empty() const { return rows_ == 0; }
  const TensorView& tensor() const { return *tensor_; }

  // Reads the outputs [first, first + count): [count, inputs], or [inputs, count] if transposed(). N is float or Bf16;
  // weights that are not stored in BF16 are rounded to it. Any thread may call it.
  template <class N>
  void read_outputs(Index first, Index count, N* to) const;
  // Computes y_TO = x_TI W_OI^T for the outputs from `first` on, directly from the mapped file. Returns false without a
  // result unless W is plain BF16, without scales, at even addresses and not transposed(). Any thread may call it.
  bool multiply_mapped(ConstMatrix<float> x, Index first, Matrix<float> y) const;

 private:
  const TensorView* tensor_ = nullptr;
  std::size_t first_ = 0;  // first element of the matrix in the tensor
  Index rows_ = 0, cols_ = 0;
  bool transposed_ = false;
  SharedFailure failure_;
};

// Arithmetic of products with weights. bf16: both operands are rounded to BF16, as in a model that runs in BF16, and
// products are added in FP32, by matrix units if the processor has them (core/numerics/matrix_units.h).
enum class Arithmetic : std::uint8_t { fp32, bf16 };

// Formats to which the operands are rounded before they are multiplied, in blocks along the inputs
// (core/numerics/quantize.h). If an operand is rounded, the product is computed in FP32 regardless of the Arithmetic.
struct OperandRounding {
  OperandFormat x = {.scheme = QuantScheme::fp32}, w = {.scheme = QuantScheme::fp32};
  bool rounds() const { return x.scheme != QuantScheme::fp32 || w.scheme != QuantScheme::fp32; }
};

// A linear layer whose weight stays in its file. A product is divided into tasks of several outputs; the sizes of the
// tasks depend on the shapes alone.
struct StoredLinear final : LinearLayer<float> {
  StoredLinear() = default;
  explicit StoredLinear(StoredMatrix w, Arithmetic products = Arithmetic::fp32,
                        const OperandRounding* operands = nullptr)
      : weight(std::move(w)), arithmetic(products), rounding(operands) {}

  StoredMatrix weight;
  std::vector<float> bias;  // [outputs]; empty: none
  Arithmetic arithmetic = Arithmetic::fp32;
  const OperandRounding* rounding = nullptr;  // nullptr: no rounding
  float added_factor = 1;                     // factor of the outputs if forward() accumulates

  bool empty() const { return weight.empty(); }
  Index outputs() const { return weight.outputs(); }
  Index inputs() const { return weight.inputs(); }
  void forward(ConstMatrix<float> x, Matrix<float> y, bool accumulate = false) const override;
};

class FloatMatrix {
 public:
  FloatMatrix(Index rows, Index cols)
      : memory_(std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(rows * cols))),
        view_(memory_.get(), rows, cols) {}
  FloatMatrix(const FloatMatrix&) = delete;
  FloatMatrix& operator=(const FloatMatrix&) = delete;

  const Matrix<float>& operator*() const { return view_; }
  const Matrix<float>* operator->() const { return &view_; }

 private:
  std::unique_ptr<float[]> memory_;
  Matrix<float> view_;
};

}  // namespace moescope
