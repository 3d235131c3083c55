#include "core/model/layers/linear.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <vector>

#include "core/model/layers/batch_part.h"
#include "core/model/layers/gradient_inputs.h"
#include "core/model/layers/operand_tap.h"
#include "core/model/layers/product.h"
#include "core/numerics/threads.h"

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

// Weights lie stacked row by row, their gradients dy side by side; x is common to them.
template <class T>
OperandSource<T> source_of(const LinearPrecision& precision, Direction direction, OperandRole operand, const T* in,
                           Shape shape) {
  const int parts = operand == OperandRole::x ? 1 : precision.stacked;
  OperandSource<T> source;
  source.format = precision.formats ? &precision.formats->format(direction, operand) : nullptr;
  source.axis = contracting_axis(direction, operand);
  source.stride = shape.cols;
  source.parts = parts;
  (operand == OperandRole::w ? shape.rows : shape.cols) /= parts;
  source.rows = shape.rows, source.cols = shape.cols;
  const std::size_t step = operand == OperandRole::w ? shape.size() : static_cast<std::size_t>(shape.cols);
  for (std::size_t i = 0; i < static_cast<std::size_t>(parts); ++i) {
    source.part[i].in = in + i * step;
    if (!source.format) continue;
    source.part[i].key = precision.key(direction, operand, static_cast<int>(i));
    source.part[i].sums = precision.sums ? &precision.sums[i][operand_index(direction, operand)] : nullptr;
  }
  return source;
}

template <class T>
void capture_operand(const LinearPrecision& precision, Direction direction, OperandRole operand,
                     const OperandSource<T>& source) {
  if (!precision.tap || !precision.tap->is(direction, operand)) return;
  const OperandPart<T>& part = source.part[operand == OperandRole::x ? 0 : static_cast<std::size_t>(precision.tapped)];
  precision.tap->take(*source.format, source.axis, -1, part.in, source.rows, source.cols,
                      static_cast<std::size_t>(source.stride), part.key);
}

// What `precision` says of an operand; it is captured if someone asked for it.
template <class T>
OperandSource<T> take_operand(const LinearPrecision& precision, Direction direction, OperandRole operand, const T* in,
                              Shape shape) {
  const OperandSource<T> source = source_of(precision, direction, operand, in, shape);
  capture_operand(precision, direction, operand, source);
  return source;
}

// An operand that the forward pass took, too. If it is the same numbers again, they were counted there.
template <class T>
OperandSource<T> take_again(const LinearPrecision& precision, Direction direction, OperandRole operand, const T* in,
                            Shape shape) {
  OperandSource<T> source = take_operand(precision, direction, operand, in, shape);
  if (!precision.formats || !precision.sums) return source;
  const ClassPrecision& formats = *precision.formats;
  if (!quantize_alike(formats.format(Direction::forward, operand), formats.format(direction, operand))) return source;
  for (std::size_t i = 0; i < static_cast<std::size_t>(source.parts); ++i) {
    GemmSums& sums = precision.sums[i];
    sums[operand_index(direction, operand)] = sums[operand_index(Direction::forward, operand)];
    source.part[i].sums = nullptr;
  }
  return source;
}

// sum = (sum + parts[0]) + (parts[1] + parts[2]), parts `stride` apart: add_pairwise of four shards in one pass. With
// two, sum + parts[0].
template <class T>
void join_shards(T* __restrict sum, const T* __restrict parts, std::size_t stride, std::size_t count, int shards) {
  static_assert(kMaxShards == 4);
  assert(shards == 2 || shards == 4);
  if (shards == 2) {
    for (std::size_t i = 0; i < count; ++i) sum[i] += parts[i];
    return;
  }
  for (std::size_t i = 0; i < count; ++i) sum[i] = (sum[i] + parts[i]) + (parts[stride + i] + parts[2 * stride + i]);
}

// dW of the outputs of one tile: each shard's own, then added pairwise.
template <class T>
struct WeightGradient {
  const GemmInputs<T>& inputs;
  int rows, out, in, shards;
  T* dw;

  int first(int tile) const { return tile * kWeightTileRows; }
  int outputs(int tile) const { return std::min(kWeightTileRows, out - first(tile)); }
  T* of_tile(int tile) const { return dw + static_cast<std::size_t>(first(tile)) * static_cast<std::size_t>(in); }
  void multiply_shard(int tile, int shard, T* to) const {
    const int count = rows / shards;
    multiply(Trans::yes, Trans::no, outputs(tile), in, count, inputs.a.from(shard * count, first(tile)),
             inputs.b.from(shard * count, 0), false, to, in);
  }
};

// A tile's shards stay in the cache of the thread that adds them.
template <class T>
void tile_by_tile(const WeightGradient<T>& of) {
  parallel_for(tiles(of.out, kWeightTileRows), [&](int tile) {
    const std::size_t count = static_cast<std::size_t>(of.outputs(tile)) * static_cast<std::size_t>(of.in);
    thread_local std::vector<T> others;  // apart from the thread's scratch, which may hold the operands
    others.resize(std::max(others.size(), count * static_cast<std::size_t>(of.shards - 1)));
    of.multiply_shard(tile, 0, of.of_tile(tile));
    for (int s = 1; s < of.shards; ++s)
      of.multiply_shard(tile, s, others.data() + static_cast<std::size_t>(s - 1) * count);
    if (of.shards > 1) join_shards(of.of_tile(tile), others.data(), count, count, of.shards);
  });
}

// The same sums in more tasks, for more threads than there are tiles.
template <class T>
void shard_by_shard(const WeightGradient<T>& of) {
  constexpr std::size_t kJoined = 1 << 14;
  const std::size_t count = static_cast<std::size_t>(of.out) * static_cast<std::size_t>(of.in);
  thread_local std::vector<T> memory;
  memory.resize(std::max(memory.size(), count * static_cast<std::size_t>(of.shards - 1)));
  T* others = memory.data();
  parallel_for(tiles(of.out, kWeightTileRows) * of.shards, [&](int task) {
    const int tile = task / of.shards, shard = task % of.shards;
    T* to = of.of_tile(tile);
    if (shard > 0) to = others + static_cast<std::size_t>(shard - 1) * count + (to - of.dw);
    of.multiply_shard(tile, shard, to);
  });
  parallel_slices(count, kJoined, [&](std::size_t first, std::size_t last) {
    join_shards(of.dw + first, others + first, count, last - first, of.shards);
  });
}

template <class T>
void backward_weight(GemmInputs<T> inputs, int rows, int out, int in, int shard_rows, T* dw) {
  lay_out_second(Trans::no, in, rows, inputs.b);
  const WeightGradient<T> of{inputs, rows, out, in, shard_rows > 0 ? rows / shard_rows : 1, dw};
  if (of.shards > 1 && tiles(out, kWeightTileRows) < num_threads())
    shard_by_shard(of);
  else
    tile_by_tile(of);
}

template <class T>
void backward_input(GemmInputs<T> inputs, int rows, int out, int in, int most, bool accumulate, T* dx) {
  lay_out_second(Trans::no, in, out, inputs.b);
  parallel_for(tiles(rows, most), [&](int tile) {
    const int first = tile * most, n = std::min(most, rows - first);
    multiply(Trans::no, Trans::no, n, in, out, inputs.a.from(first, 0), inputs.b, accumulate,
             dx + static_cast<std::size_t>(first) * static_cast<std::size_t>(in), in);
  });
}

}  // namespace

template <class T>
void linear_forward(const T* x, int rows, int in, const T* w, int out, T* y, bool accumulate,
                    const LinearPrecision& precision) {
  const auto x_source = take_operand(precision, Direction::forward, OperandRole::x, x, {rows, in});
  const auto w_source = take_operand(precision, Direction::forward, OperandRole::w, w, {out, in});
  GemmInputs<T> inputs = quantized(x_source, w_source, true, thread_scratch<T>(scratch_for(x_source, w_source)));
  lay_out_second(Trans::yes, out, in, inputs.b);
  const int most = tile_rows(precision);
  parallel_for(tiles(rows, most), [&](int tile) {
    const int first = tile * most, n = std::min(most, rows - first);
    multiply(Trans::no, Trans::yes, n, out, in, inputs.a.from(first, 0), inputs.b, accumulate,
             y + static_cast<std::size_t>(first) * static_cast<std::size_t>(out), out);
  });
}

template <class T>
void linear_backward(const T* dy, int rows, int out, const T* x, const T* w, int in, T* dw, T* dx, bool accumulate,
                     const LinearPrecision& precision) {
  GradientInputs<T> gradient(take_operand(precision, Direction::wgrad, OperandRole::dy, dy, {rows, out}),
                             take_again(precision, Direction::wgrad, OperandRole::x, x, {rows, in}),
                             take_operand(precision, Direction::dgrad, OperandRole::dy, dy, {rows, out}),
                             take_again(precision, Direction::dgrad, OperandRole::w, w, {out, in}), true);
  backward_weight(gradient.wgrad(), rows, out, in, precision.shard_rows, dw);
  backward_input(gradient.dgrad(), rows, out, in, tile_rows(precision), accumulate, dx);
}

#define INSTANTIATE(T)                                                                                  \
  template void linear_forward<T>(const T*, int, int, const T*, int, T*, bool, const LinearPrecision&); \
  template void linear_backward<T>(const T*, int, int, const T*, const T*, int, T*, T*, bool, const LinearPrecision&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
