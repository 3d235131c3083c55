#include "core/model/layers/linear.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <vector>

#include "core/model/layers/batch_part.h"
#include "core/model/layers/operand.h"
#include "core/model/layers/operand_tap.h"
#include "core/numerics/gemm.h"
#include "core/numerics/parallel.h"

namespace moescope {
namespace {

// Large enough for full GEMM speed on one core, small enough to keep several cores busy.
constexpr int kTileRows = 128;
constexpr int kWeightTileRows = 64;

// Of a product's rows; no tile reaches over two shards.
int tile_rows(const LinearPrecision& precision) {
  return precision.shard_rows % kTileRows == 0 ? kTileRows : kShardRows;
}

int tiles(int extent, int tile) {
  return (extent + tile - 1) / tile;
}

struct Shape {
  int rows, cols;
  std::size_t size() const { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols); }
};

bool quantizes(const LinearPrecision& precision, Direction direction, Operand operand) {
  return precision.formats && !is_plain(precision.formats->format(direction, operand));
}

// One of the weights that lie stacked row by row, or of their gradients dy side by side; x is common to them.
struct Part {
  std::size_t offset;
  Shape shape;
};
Part part_of(const LinearPrecision& precision, Operand operand, Shape shape, int index) {
  if (operand == Operand::x) return {0, shape};
  (operand == Operand::w ? shape.rows : shape.cols) /= precision.stacked;
  const std::size_t step = operand == Operand::w ? shape.size() : static_cast<std::size_t>(shape.cols);
  return {static_cast<std::size_t>(index) * step, shape};
}

template <class T>
void capture_operand(const LinearPrecision& precision, Direction direction, Operand operand, const T* in, Shape shape) {
  if (!precision.tap || !precision.tap->is(direction, operand)) return;
  const int index = operand == Operand::x ? 0 : precision.tapped;
  const Part part = part_of(precision, operand, shape, index);
  precision.tap->take(precision.formats->format(direction, operand), contracting_axis(direction, operand), -1,
                      in + part.offset, part.shape.rows, part.shape.cols, static_cast<std::size_t>(shape.cols),
                      precision.key(direction, operand, index));
}

template <class T>
void quantize(const LinearPrecision& precision, Direction direction, Operand operand, const T* in, Shape shape,
              T* out) {
  const int parts = operand == Operand::x ? 1 : precision.stacked;
  const std::size_t stride = static_cast<std::size_t>(shape.cols);
  for (int i = 0; i < parts; ++i) {
    const Part part = part_of(precision, operand, shape, i);
    QuantSums* sums = precision.sums ? &precision.sums[i][operand_index(direction, operand)] : nullptr;
    quantize_in_bands(precision.formats->format(direction, operand), in + part.offset, part.shape.rows, part.shape.cols,
                      stride, contracting_axis(direction, operand), precision.key(direction, operand, i),
                      out + part.offset, sums);
  }
}

// Both operands of a product as it multiplies them: the matrix itself, or its copy in this thread's scratch.
template <class T>
void take_operands(const LinearPrecision& precision, Direction direction, Operand first, const T*& a, Shape a_shape,
                   Operand second, const T*& b, Shape b_shape) {
  capture_operand(precision, direction, first, a, a_shape);
  capture_operand(precision, direction, second, b, b_shape);
  const bool of_a = quantizes(precision, direction, first), of_b = quantizes(precision, direction, second);
  if (!of_a && !of_b) return;
  constexpr std::size_t kAligned = 64 / sizeof(T);
  const std::size_t a_size = of_a ? (a_shape.size() + kAligned - 1) / kAligned * kAligned : 0;
  T* scratch = thread_scratch<T>(a_size + (of_b ? b_shape.size() : 0));
  if (of_a) {
    quantize(precision, direction, first, a, a_shape, scratch);
    a = scratch;
  }
  if (of_b) {
    quantize(precision, direction, second, b, b_shape, scratch + a_size);
    b = scratch + a_size;
  }
}

// sum = (sum + parts[0]) + (parts[1] + parts[2]), parts `count` apart: add_pairwise of four shards in one pass. With
// two, sum + parts[0].
template <class T>
void join_shards(T* __restrict sum, const T* __restrict parts, std::size_t count, int shards) {
  static_assert(kMaxShards == 4);
  assert(shards == 2 || shards == 4);
  if (shards == 2) {
    for (std::size_t i = 0; i < count; ++i) sum[i] += parts[i];
    return;
  }
  for (std::size_t i = 0; i < count; ++i) sum[i] = (sum[i] + parts[i]) + (parts[count + i] + parts[2 * count + i]);
}

// dW of `n` outputs: each shard's own, then added pairwise. `dw` is [n, in].
template <class T>
void weight_tile(const T* dy, const T* x, int rows, int shard_rows, int n, int out, int in, T* dw) {
  const int shards = shard_rows > 0 ? rows / shard_rows : 1;
  const int rows_of_one = rows / shards;
  const std::size_t size = static_cast<std::size_t>(n) * static_cast<std::size_t>(in);
  thread_local std::vector<T> others;  // apart from the thread's scratch, which may hold the operands
  if (shards > 1) others.resize(size * static_cast<std::size_t>(shards - 1));
  for (int s = 0; s < shards; ++s) {
    const std::size_t first = static_cast<std::size_t>(s) * static_cast<std::size_t>(rows_of_one);
    gemm(Trans::yes, Trans::no, n, in, rows_of_one, T{1}, dy + first * static_cast<std::size_t>(out), out,
         x + first * static_cast<std::size_t>(in), in, T{0},
         s == 0 ? dw : others.data() + static_cast<std::size_t>(s - 1) * size, in);
  }
  if (shards > 1) join_shards(dw, others.data(), size, shards);
}

}  // namespace

template <class T>
void linear_forward(const T* x, int rows, int in, const T* w, int out, T* y, bool accumulate,
                    const LinearPrecision& precision) {
  take_operands(precision, Direction::forward, Operand::x, x, {rows, in}, Operand::w, w, {out, in});
  const int most = tile_rows(precision);
  parallel_for(tiles(rows, most), [&](int tile) {
    const std::size_t first = static_cast<std::size_t>(tile) * static_cast<std::size_t>(most);
    const int n = std::min(most, rows - static_cast<int>(first));
    gemm(Trans::no, Trans::yes, n, out, in, T{1}, x + first * static_cast<std::size_t>(in), in, w, in,
         accumulate ? T{1} : T{0}, y + first * static_cast<std::size_t>(out), out);
  });
}

template <class T>
void linear_backward_input(const T* dy, int rows, int out, const T* w, int in, T* dx, bool accumulate,
                           const LinearPrecision& precision) {
  take_operands(precision, Direction::dgrad, Operand::dy, dy, {rows, out}, Operand::w, w, {out, in});
  const int most = tile_rows(precision);
  parallel_for(tiles(rows, most), [&](int tile) {
    const std::size_t first = static_cast<std::size_t>(tile) * static_cast<std::size_t>(most);
    const int n = std::min(most, rows - static_cast<int>(first));
    gemm(Trans::no, Trans::no, n, in, out, T{1}, dy + first * static_cast<std::size_t>(out), out, w, in,
         accumulate ? T{1} : T{0}, dx + first * static_cast<std::size_t>(in), in);
  });
}

template <class T>
void linear_backward_weight(const T* dy, const T* x, int rows, int out, int in, T* dw,
                            const LinearPrecision& precision) {
  take_operands(precision, Direction::wgrad, Operand::dy, dy, {rows, out}, Operand::x, x, {rows, in});
  parallel_for(tiles(out, kWeightTileRows), [&](int tile) {
    const std::size_t first = static_cast<std::size_t>(tile) * kWeightTileRows;
    const int n = std::min(kWeightTileRows, out - static_cast<int>(first));
    weight_tile(dy + first, x, rows, precision.shard_rows, n, out, in, dw + first * static_cast<std::size_t>(in));
  });
}

#define INSTANTIATE(T)                                                                                         \
  template void linear_forward<T>(const T*, int, int, const T*, int, T*, bool, const LinearPrecision&);        \
  template void linear_backward_input<T>(const T*, int, int, const T*, int, T*, bool, const LinearPrecision&); \
  template void linear_backward_weight<T>(const T*, const T*, int, int, int, T*, const LinearPrecision&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
