#include "core/checkpoints/stored_matrix.h"

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <span>
#include <type_traits>

#include "core/checkpoints/bf16_dots.h"
#include "core/numerics/gemm.h"
#include "core/numerics/kernels/row_math.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/quantize.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr std::size_t kPart = 4096;  // elements converted at a time

// Read the elements from `first` on. Throw as TensorView::read_floats() and copy_bytes().
void read_elements(const TensorView& tensor, std::size_t first, std::span<float> to) {
  tensor.read_floats(first, to);
}
void read_elements(const TensorView& tensor, std::size_t first, std::span<Bf16> to) {
  if (tensor.dtype == DType::bf16 && !tensor.scales)
    return tensor.copy_bytes(first, to.size(), std::as_writable_bytes(to).data());
  std::array<float, kPart> part;
  for (std::size_t done = 0, n = 0; done < to.size(); done += n) {
    n = std::min(kPart, to.size() - done);
    tensor.read_floats(first + done, std::span(part).first(n));
    round_to_unit_bf16(part.data(), n, to.data() + done);
  }
}

// Number of outputs of a task of StoredLinear::forward. The weights that a task reads fit the cache of its core. With
// many rows a task has more outputs, so that sgemm packs the rows less often.
Index outputs_of_task(Index rows, Index inputs) {
  constexpr Index kFewRows = 16, kFewElements = Index{1} << 15, kManyElements = Index{1} << 19, kMinOutputs = 16;
  const Index elements = rows <= kFewRows ? kFewElements : kManyElements;
  return std::max(kMinOutputs, elements / std::max<Index>(1, inputs) / kMinOutputs * kMinOutputs);
}

// Whether a product replaces y or is added to it: y = factor x W^T, or y += factor x W^T.
struct ProductTarget {
  float factor = 1;
  bool adds = false;
  float beta() const { return adds ? 1 : 0; }
};

// Multiplies x with the weights of the outputs from `first` on, in FP32 or BF16 (N).
template <class N>
void multiply_outputs(const Matrix<const N>& x, const StoredMatrix& w, Index first, const ProductTarget& target,
                      const Matrix<float>& y) {
  N* piece = thread_scratch<N>(static_cast<std::size_t>(y.cols * w.inputs()));
  w.read_outputs(first, y.cols, piece);
  if (w.transposed())
    gemm(Trans::no, Trans::no, target.factor, x, Matrix<N>(piece, w.inputs(), y.cols), target.beta(), y);
  else
    gemm(Trans::no, Trans::yes, target.factor, x, Matrix<N>(piece, y.cols, w.inputs()), target.beta(), y);
}

// y = x W^T for few rows, for which sgemm would copy the weights once more. W must not be transposed().
void dot_outputs(const Matrix<const float>& x, const StoredLinear& w, Index first, const Matrix<float>& y) {
  if (w.weight.multiply_mapped(x, first, y)) return;
  const std::size_t inputs = w.inputs();
  float* piece = thread_scratch<float>(y.cols * inputs);
  w.weight.read_outputs(first, y.cols, piece);
  if (w.arithmetic == Arithmetic::bf16 && w.weight.tensor().dtype != DType::bf16)
    round_to_unit_bf16(piece, y.cols * inputs, piece);
  for (Index o = 0; o < y.cols; ++o)
    for (Index r = 0; r < y.rows; ++r) y.at(r, o) = dot(x.row(r), piece + o * w.inputs(), inputs);
}

// Returns x rounded to BF16, in rows without gaps.
template <class N>
std::vector<N> rounded(ConstMatrix<float> x) {
  std::vector<N> values(static_cast<std::size_t>(x.size()));
  parallel_slices(static_cast<std::size_t>(x.rows), 16, [&](std::size_t first, std::size_t last) {
    for (auto r = static_cast<Index>(first); r < static_cast<Index>(last); ++r)
      round_to_unit_bf16(x.row(r), static_cast<std::size_t>(x.cols), values.data() + r * x.cols);
  });
  return values;
}

void add_bias(const StoredLinear& w, Index first, const ProductTarget& target, const Matrix<float>& y) {
  if (w.bias.empty()) return;
  for (Index r = 0; r < y.rows; ++r) add_scaled(target.factor, w.bias.data() + first, y.cols, y.row(r));
}

bool uses_dots(Index rows, const StoredLinear& w) {
  constexpr Index kMaxDotRows = 4;
  return rows <= kMaxDotRows && !w.weight.transposed();
}

void add_dot_outputs(const Matrix<const float>& x, const StoredLinear& w, Index first, const ProductTarget& target,
                     const Matrix<float>& y) {
  if (!target.adds) return dot_outputs(x, w, first, y);
  thread_local std::vector<float> memory;
  memory.resize(y.size());
  const Matrix<float> dots(memory.data(), y.rows, y.cols);
  dot_outputs(x, w, first, dots);
  for (Index r = 0; r < y.rows; ++r) add_scaled(target.factor, dots.row(r), y.cols, y.row(r));
}

template <class N>
void multiply_all(const Matrix<const N>& x, const StoredLinear& w, const ProductTarget& target,
                  const Matrix<float>& y) {
  const auto step = static_cast<std::size_t>(outputs_of_task(x.rows, w.inputs()));
  parallel_slices(static_cast<std::size_t>(w.outputs()), step, [&](std::size_t begin, std::size_t end) {
    const Index first = begin, count = end - begin;
    const Matrix<float> to = y.col_block(first, count);
    if constexpr (std::is_same_v<N, float>) {
      if (uses_dots(x.rows, w))
        add_dot_outputs(x, w, first, target, to);
      else
        multiply_outputs(x, w.weight, first, target, to);
    } else {
      multiply_outputs(x, w.weight, first, target, to);
    }
    add_bias(w, first, target, to);
  });
}

// Calls body(first output, operand) for each piece of 128 outputs, in parallel. The operand holds the piece's weights.
void for_each_piece(const StoredLinear& w, const auto& body) {
  constexpr std::size_t kOutputs = 128;  // a multiple of the size of every block
  parallel_slices(static_cast<std::size_t>(w.outputs()), kOutputs, [&](std::size_t begin, std::size_t end) {
    const Index first = begin, count = end - begin;
    std::vector<float> values(count * w.inputs());
    w.weight.read_outputs(first, count, values.data());
    const bool transposed = w.weight.transposed();
    Operand<float> piece{.matrix = transposed ? Matrix<const float>(values.data(), w.inputs(), count)
                                              : Matrix<const float>(values.data(), count, w.inputs()),
                         .format = w.rounding->w,
                         .axis = transposed ? BlockAxis::column : BlockAxis::row};
    (transposed ? piece.key.first_col : piece.key.first_row) = static_cast<std::uint32_t>(first);
    body(first, piece);
  });
}

// Returns the amax of all weights, from which the scale of the tensor is computed.
float amax_of(const StoredLinear& w) {
  std::vector<float> piece_amax(w.outputs() / 128 + 1);
  for_each_piece(w, [&](Index first, const Operand<float>& piece) { piece_amax[first / 128] = operand_amax(piece); });
  float amax = 0;
  for (const float one : piece_amax) amax = larger_amax(amax, one);
  return amax;
}

void rounded_forward(ConstMatrix<float> x, const StoredLinear& w, const ProductTarget& target, const Matrix<float>& y) {
  std::vector<float> rounded_x(x.size());
  const Matrix<float> qx(rounded_x.data(), x.rows, x.cols);
  quantize_operand(Operand<float>{.matrix = x, .format = w.rounding->x, .axis = BlockAxis::row}, qx, Threads::all);
  std::optional<float> amax;
  if (has_tensor_scale(w.rounding->w)) amax = amax_of(w);
  for_each_piece(w, [&](Index first, Operand<float> piece) {
    piece.tensor_amax = amax;
    const Index count = w.weight.transposed() ? piece.matrix.cols : piece.matrix.rows;
    std::vector<float> rounded_w(piece.matrix.size());
    const Matrix<float> qw(rounded_w.data(), piece.matrix.rows, piece.matrix.cols), to = y.col_block(first, count);
    quantize_operand(piece, qw);
    gemm(Trans::no, w.weight.transposed() ? Trans::no : Trans::yes, target.factor, qx, qw, target.beta(), to);
    add_bias(w, first, target, to);
  });
}

}  // namespace

void ReadFailure::set(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!failed_.exchange(true)) reason_ = reason;
}

std::string ReadFailure::reason() const {
  if (!failed_.load()) return {};
  const std::lock_guard lock(mutex_);
  return reason_;
}

StoredMatrix::StoredMatrix(const TensorView& tensor, Index index, bool transposed, SharedFailure failure)
    : tensor_(&tensor),
      rows_(tensor.shape[tensor.shape.size() - 2]),
      cols_(tensor.shape.back()),
      transposed_(transposed),
      failure_(std::move(failure)) {
  first_ = index * rows_ * cols_;
}

template <class N>
void StoredMatrix::read_outputs(Index first, Index count, N* to) const {
  const std::size_t n = count, cols = cols_;
  const std::size_t begin = first_ + (transposed_ ? first : first * cols_);
  try {
    if (!transposed_) return read_elements(*tensor_, begin, {to, n * cols});
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows_); ++r)
      read_elements(*tensor_, begin + r * cols, {to + r * n, n});
  } catch (const std::exception& error) {
    failure_->set(error.what());
  }
}
template void StoredMatrix::read_outputs(Index, Index, float*) const;
template void StoredMatrix::read_outputs(Index, Index, Bf16*) const;

bool StoredMatrix::multiply_mapped(ConstMatrix<float> x, Index first, Matrix<float> y) const {
  const TensorView& t = *tensor_;
  const bool plain = t.dtype == DType::bf16 && !t.big_endian && t.strides.empty() && !t.checksum && !t.scales;
  const std::byte* weights = t.bytes.data() + 2 * (first_ + (first * cols_));
  if (transposed_ || !plain || reinterpret_cast<std::uintptr_t>(weights) % 2 != 0) return false;
  if (!bf16_dots(x, weights, y)) failure_->set(shortened_text(t));
  return true;
}

void StoredLinear::forward(ConstMatrix<float> x, Matrix<float> y, bool accumulate) const {
  const ProductTarget target{accumulate ? added_factor : 1, accumulate};
  if (rounding && rounding->rounds()) return rounded_forward(x, *this, target, y);
  if (arithmetic == Arithmetic::fp32) return multiply_all<float>(x, *this, target, y);
  if (has_matrix_unit() && !uses_dots(x.rows, *this)) {
    const std::vector<Bf16> numbers = rounded<Bf16>(x);
    return multiply_all<Bf16>({numbers.data(), x.rows, x.cols}, *this, target, y);
  }
  const std::vector<float> numbers = rounded<float>(x);
  multiply_all<float>({numbers.data(), x.rows, x.cols}, *this, target, y);
}

}  // namespace moescope
