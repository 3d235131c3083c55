#include "core/model/layers/linear.h"

#include "core/model/layers/batch_part.h"
#include "core/model/layers/operand_tap.h"
#include "core/numerics/bf16_rounding.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/product.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr Index kAddedRows = 64;

// Returns the number of rows of a product in one task: large enough for full GEMM speed on one core, small enough to
// keep several cores busy. No task spans two shards.
Index task_rows(const LinearPrecision& precision) {
  constexpr Index kTaskRows = 128;
  return precision.shard_rows % kTaskRows == 0 ? kTaskRows : kShardRows;
}

// Makes an operand with the settings of `precision`. Two stacked weights are one above the other, the gradients dy of
// their outputs are side by side, and both weights have the same x.
template <class T>
Operand<T> described(const LinearPrecision& precision, Direction direction, OperandRole role,
                     const Matrix<const T>& matrix) {
  Operand<T> operand{.matrix = matrix, .axis = contracting_axis(direction, role)};
  if (role != OperandRole::x && precision.stacked == 2)
    operand.halves = role == OperandRole::w ? Halves::stacked : Halves::side_by_side;
  if (!precision.formats) return operand;
  operand.format = precision.formats->format(direction, role);
  operand.key = precision.key(direction, role, 0);
  operand.second_key = precision.key(direction, role, 1);
  if (precision.sums.empty()) return operand;
  const std::size_t index = operand_index(direction, role);
  operand.sums = &precision.sums[0][index];
  if (operand.parts() == 2) operand.second_sums = &precision.sums[1][index];
  return operand;
}

// Makes the operand, and captures it if it is the operand of the tap.
template <class T>
Operand<T> operand_of(const LinearPrecision& precision, Direction direction, OperandRole role,
                      const Matrix<const T>& matrix) {
  const Operand<T> operand = described(precision, direction, role, matrix);
  if (precision.tap && precision.tap->is(direction, role)) precision.tap->take(operand.part(precision.tapped), -1);
  return operand;
}

// Makes an operand that the forward pass also used. If both passes quantize it to the same numbers, takes over the
// statistics of the forward pass.
template <class T>
Operand<T> operand_again(const LinearPrecision& precision, Direction direction, OperandRole role,
                         const Matrix<const T>& matrix) {
  Operand<T> operand = operand_of(precision, direction, role, matrix);
  if (!precision.formats || precision.sums.empty()) return operand;
  const ClassPrecision& formats = *precision.formats;
  if (!quantize_alike(formats.format(Direction::forward, role), operand.format)) return operand;
  for (int i = 0; i < operand.parts(); ++i) {
    GemmSums& sums = precision.sums[i];
    sums[operand_index(direction, role)] = sums[operand_index(Direction::forward, role)];
  }
  operand.sums = operand.second_sums = nullptr;
  return operand;
}

// Computes a product by `product(adds, where)` and rounds it to BF16. If `accumulate`, the rounded product is added to
// `out`.
template <class T>
void store_in_bf16(const auto& product, bool accumulate, const Matrix<T>& out) {
  if (!accumulate) {
    product(false, out);
    return round_all_to_bf16(out);
  }
  thread_local AlignedBuffer<T> space;
  const Matrix<T> stored(space.sized(static_cast<std::size_t>(out.size())), out.rows, out.cols);
  product(false, stored);
  round_all_to_bf16(stored);
  parallel_slices(out.rows, kAddedRows, [&](Index first, Index last) {
    for (Index r = first; r < last; ++r) add_scaled(T{1}, stored.row(r), out.cols, out.row(r));
  });
}

}  // namespace

template <class T>
void linear_forward(ConstMatrix<T> x, ConstMatrix<T> w, Matrix<T> y, bool accumulate,
                    const LinearPrecision& precision) {
  const auto product = [&](bool adds, const Matrix<T>& out) {
    multiply(Trans::no, Trans::yes, operand_of<T>(precision, Direction::forward, OperandRole::x, x),
             operand_of<T>(precision, Direction::forward, OperandRole::w, w), adds, out, task_rows(precision));
  };
  if (precision.bf16_output)
    store_in_bf16<T>(product, accumulate, y);
  else
    product(accumulate, y);
}

template <class T>
void linear_backward(ConstMatrix<T> dy, ConstMatrix<T> x, ConstMatrix<T> w, Matrix<T> dw, Matrix<T> dx, bool accumulate,
                     const LinearPrecision& precision) {
  const auto products = [&](bool adds, const Matrix<T>& out) {
    multiply(
        GradientProducts<T>{.wgrad_dy = operand_of<T>(precision, Direction::wgrad, OperandRole::dy, dy),
                            .x = operand_again<T>(precision, Direction::wgrad, OperandRole::x, x),
                            .dgrad_dy = operand_of<T>(precision, Direction::dgrad, OperandRole::dy, dy),
                            .w = operand_again<T>(precision, Direction::dgrad, OperandRole::w, w),
                            .dw = dw,
                            .dx = out,
                            .adds_dx = adds,
                            .task_rows = task_rows(precision),
                            .shards = precision.shard_rows > 0 ? static_cast<int>(dy.rows / precision.shard_rows) : 1});
  };
  if (precision.bf16_output)
    store_in_bf16<T>(products, accumulate, dx);
  else
    products(accumulate, dx);
}

#define INSTANTIATE(T)                                                                                         \
  template void linear_forward<T>(ConstMatrix<T>, ConstMatrix<T>, Matrix<T>, bool, const LinearPrecision&);    \
  template void linear_backward<T>(ConstMatrix<T>, ConstMatrix<T>, ConstMatrix<T>, Matrix<T>, Matrix<T>, bool, \
                                   const LinearPrecision&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
