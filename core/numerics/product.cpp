#include "core/numerics/product.h"

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>

#include "core/numerics/kernels/narrow_native.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/quantize.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

// True if every number is rounded by itself, without a scale or a random bit.
bool is_nearest_bf16(const OperandFormat& format) {
  return format.scheme == QuantScheme::bf16 && format.rounding == Rounding::nearest && format.hadamard == 0;
}

// Both operands of a product.
template <class T>
struct Factors {
  QuantizedOperand<T> a, b;
};

// Memory of quantized operands --------------------------------------------------------------------------------------

template <class T>
Index in_lines(Index count) {
  constexpr Index kLine = 64 / sizeof(T);
  return (count + kLine - 1) / kLine * kLine;
}

// Returns the number of elements of T that a quantized operand needs: whole cache lines, so that the second operand
// begins on one. The values come first, then the scales. BF16 numbers take half of the values' part.
template <class T>
Index scratch_of(const Operand<T>& operand) {
  if (is_plain(operand.format)) return 0;
  const Index values = in_lines<T>(operand.matrix.size());
  if (!operand.has_grid()) return values;
  const ScaleGrid grid = operand.grid(nullptr);
  return values + in_lines<T>(operand.parts() * grid.rows * grid.stride);
}

template <class T>
QuantizedOperand<T> described(const Operand<T>& operand) {
  QuantizedOperand<T> quantized;
  quantized.axis = operand.axis;
  quantized.halves = operand.halves;
  quantized.half_begin = operand.half_size();
  return quantized;
}

// Returns half `index` of `whole`, which has the shape of the operand's matrix; `whole` if the operand has no halves.
template <class N, class T>
Matrix<N> part_of(const Matrix<N>& whole, const Operand<T>& operand, int index) {
  if (operand.halves == Halves::none) return whole;
  return operand.halves == Halves::stacked ? whole.row_block(index * operand.half_size(), operand.half_size())
                                           : whole.col_block(index * operand.half_size(), operand.half_size());
}

template <class T>
QuantizedOperand<T> quantized_fp32(const Operand<T>& operand, Threads threads, bool counted, T* scratch) {
  QuantizedOperand<T> quantized = described(operand);
  quantized.values = operand.matrix;
  if (is_plain(operand.format)) return quantized;
  const Matrix<T> out(scratch, operand.matrix.rows, operand.matrix.cols);
  for (int i = 0; i < operand.parts(); ++i) {
    Operand<T> part = operand.part(i);
    if (!counted) part.sums = nullptr;
    quantize_operand(part, part_of(out, operand, i), threads);
  }
  quantized.values = out;
  return quantized;
}

// Places the scales of the two halves one after the other. The grid of the second half begins at the first row or
// column of this half.
void place_grids(const Operand<float>& operand, float* scales, QuantizedOperand<float>& quantized) {
  const bool along = (operand.halves == Halves::side_by_side) == (operand.axis == BlockAxis::row);
  ScaleGrid &first = quantized.scale[0].grid, &second = quantized.scale[1].grid;
  first = second = operand.grid(scales);
  if (operand.halves == Halves::none) return;
  second.scales += first.rows * first.stride;
  (along ? second.along : second.across) = -operand.half_size();
}

// Quantizes the operand to BF16 numbers. Returns false if BF16 cannot hold one of the numbers.
bool in_bf16(const Operand<float>& operand, Threads threads, float* scratch, QuantizedOperand<float>& quantized) {
  const Matrix<Bf16> out(reinterpret_cast<Bf16*>(scratch), operand.matrix.rows, operand.matrix.cols);
  quantized = described(operand);
  quantized.bf16 = out;
  if (operand.has_grid()) place_grids(operand, scratch + in_lines<float>(operand.matrix.size()), quantized);
  bool all_fit = true;
  for (int i = 0; i < operand.parts(); ++i) {
    ScaleGrid grid = quantized.scale[i].grid;
    grid.along = grid.across = 0;  // relative to the half
    const std::optional<float> scale = quantize_operand_bf16(operand.part(i), part_of(out, operand, i), grid, threads);
    quantized.scale[i].factor = scale.value_or(1);
    all_fit = all_fit && scale;
  }
  return all_fit;
}

// Returns memory of the calling thread for the panels of a second operand.
Bf16* panels_for(Index n, Index k) {
  thread_local AlignedBuffer<Bf16> buffer;
  return buffer.sized(panel_elements(n, k));
}

// True if a second operand can be packed while it is converted: its format is BF16 without statistics, it is contracted
// down its columns, and one product multiplies it with `first`.
bool packs_at_once(const QuantizedOperand<float>& first, const Operand<float>& operand) {
  const bool counted = operand.sums || operand.second_sums,
             one_product = !first.scale[0].grid.scales && first.scale[0].factor == first.scale[1].factor;
  return operand.axis == BlockAxis::column && !counted && one_product && is_nearest_bf16(operand.format) &&
         operand.halves != Halves::side_by_side;
}

// Converts the operand to BF16 and packs it. Returns false if BF16 cannot hold one of the numbers.
bool pack_in_bf16(const Operand<float>& operand, Threads threads, QuantizedOperand<float>& quantized) {
  constexpr Index kBand = 2 * kUnitDepth;
  const Matrix<const float>& m = operand.matrix;
  const int bands = to_int((m.rows + kBand - 1) / kBand);
  Bf16* memory = panels_for(m.cols, m.rows);
  const PackedMatrix packed = in_panels(memory, to_tiles(m.rows, kUnitDepth));
  std::atomic<bool> all_fit{true};
  const auto pack_band = [&](int band) {
    const Index first = band * kBand;
    if (!narrow_to_panels(m.row_block(first, std::min(kBand, m.rows - first)), memory + first / 2 * packed.pair_stride,
                          packed.panel_stride))
      all_fit.store(false, std::memory_order_relaxed);
  };
  if (threads == Threads::all)
    parallel_for(bands, pack_band);
  else
    for (int band = 0; band < bands; ++band) pack_band(band);
  quantized = {};
  quantized.bf16 = {static_cast<const Bf16*>(nullptr), m.rows, m.cols};
  quantized.packed = packed;
  return all_fit;
}

// True if matrix units may multiply the operands.
template <class T>
bool on_units(const Operand<T>& a, const Operand<T>& b) {
  return std::is_same_v<T, float> && fits_bf16(a.format) && fits_bf16(b.format) && has_matrix_unit();
}

// Returns `first_factor`, which is the quantized `a`, and `b` quantized for the same unit. If BF16 cannot hold one of
// b's numbers, returns both in FP32.
template <class T>
Factors<T> with_second(const QuantizedOperand<T>& first_factor, const Operand<T>& a, const Operand<T>& b,
                       Threads threads, T* scratch) {
  T* second = scratch + scratch_of(a);
  if constexpr (std::is_same_v<T, float>) {
    if (first_factor.in_bf16()) {
      Factors<T> factors{first_factor, {}};
      if (packs_at_once(first_factor, b) ? pack_in_bf16(b, threads, factors.b) : in_bf16(b, threads, second, factors.b))
        return factors;
      return {quantized_fp32(a, threads, false, scratch), quantized_fp32(b, threads, false, second)};
    }
  }
  return {first_factor, quantized_fp32(b, threads, true, second)};
}

// Quantizes both operands of a product into `scratch`.
template <class T>
Factors<T> quantized(const Operand<T>& a, const Operand<T>& b, Threads threads, T* scratch) {
  bool counted = false;
  if constexpr (std::is_same_v<T, float>) {
    if (on_units(a, b)) {
      QuantizedOperand<T> first_factor;
      if (in_bf16(a, threads, scratch, first_factor)) return with_second(first_factor, a, b, threads, scratch);
      counted = true;
    }
  }
  return with_second(quantized_fp32(a, threads, !counted, scratch), a, b, threads, scratch);
}

// Quantizes the operands of a product after another product that also used `a` and left it at the beginning of
// `scratch`. `a` is quantized again, without statistics, only if this product runs on another unit.
template <class T>
Factors<T> quantized_after(const QuantizedOperand<T>& first_factor, const Operand<T>& a, const Operand<T>& b,
                           Threads threads, T* scratch) {
  if (on_units(a, b) == first_factor.in_bf16()) return with_second(first_factor, a, b, threads, scratch);
  Operand<T> uncounted = a;
  uncounted.sums = uncounted.second_sums = nullptr;
  return quantized(uncounted, b, threads, scratch);
}

// Packs the second operand of several products on all threads, if it is in BF16 and has no grid of scales. The packed
// form is valid until the calling thread's next call.
template <class T>
void pack_second(Trans tb, QuantizedOperand<T>& b) {
  if (!b.bf16.data || b.scale[0].grid.scales) return;
  constexpr Index kColumns = 4 * kUnitRows;
  const bool across = tb == Trans::yes;
  const Index n = across ? b.rows() : b.cols(), k = contracted(across ? Trans::no : Trans::yes, b.bf16);
  Bf16* panels = panels_for(n, k);
  parallel_for(to_int((n + kColumns - 1) / kColumns), [&](int task) {
    const Index first = task * kColumns, count = std::min(kColumns, n - first);
    pack(tb, across ? b.bf16.row_block(first, count) : b.bf16.col_block(first, count),
         panels + panel_elements(first, k));
  });
  b.packed = in_panels(panels, to_tiles(k, kUnitDepth));
  b.packed_across = across;
}

// Products ----------------------------------------------------------------------------------------------------------

// Returns elements [first, first + count) of A or B along the contracting dimension.
template <class T>
QuantizedOperand<T> k_slice(bool k_is_columns, const QuantizedOperand<T>& operand, Index first, Index count) {
  return k_is_columns ? operand.block(0, first, operand.rows(), count) : operand.block(first, 0, count, operand.cols());
}

float* grown(std::vector<float>& memory, std::size_t count) {
  if (memory.size() < count) memory.resize(count);
  return memory.data();
}

// Multiplies operands with a grid of scales. Computes one product for each stretch of the contracting dimension with
// equal scales, scales its sums and adds them in FP32, as the kernels of DeepSeek-V3's FP8 training do.
void multiply_stretches(Trans ta, Trans tb, const QuantizedOperand<float>& a, const QuantizedOperand<float>& b,
                        bool adds, const Matrix<float>& c) {
  thread_local std::vector<float> sums, a_scales, b_scales;
  const Matrix<float> part(grown(sums, c.size()), c.rows, c.cols);
  float *row_scales = grown(a_scales, c.rows), *column_scales = grown(b_scales, c.cols);
  const ScaleGrid &a_grid = a.scale[0].grid, &b_grid = b.scale[0].grid;
  const auto take_scales = [](const ScaleGrid& grid, Index along, Index count, float* out) {
    for (Index i = 0; i < count; ++i) out[i] = grid.scales ? grid.at(along, i) : 1;
  };
  const Index k = ta == Trans::yes ? a.rows() : a.cols();
  for (Index done = 0, count = 0; done < k; done += count) {
    count = k - done;
    if (a_grid.scales) count = std::min(count, a_grid.steps_to_block_end(done));
    if (b_grid.scales) count = std::min(count, b_grid.steps_to_block_end(done));
    gemm(ta, tb, a.scale[0].factor * b.scale[0].factor, k_slice(ta == Trans::no, a, done, count).bf16,
         k_slice(tb == Trans::yes, b, done, count).bf16, 0.0f, part);
    take_scales(a_grid, done, c.rows, row_scales);
    take_scales(b_grid, done, c.cols, column_scales);
    const bool first = done == 0 && !adds;
    for (Index i = 0; i < c.rows; ++i) {
      float* to = c.row(i);
      const float* from = part.row(i);
      if (first)
        for (Index j = 0; j < c.cols; ++j) to[j] = row_scales[i] * column_scales[j] * from[j];
      else
        for (Index j = 0; j < c.cols; ++j) to[j] += row_scales[i] * column_scales[j] * from[j];
    }
  }
}

// Multiplies operands that have one scale each, or one grid.
template <class T>
void multiply_part(Trans ta, Trans tb, const QuantizedOperand<T>& a, const QuantizedOperand<T>& b, bool adds,
                   const Matrix<T>& c) {
  const T beta = adds ? T{1} : T{0};
  const Index k = ta == Trans::yes ? a.rows() : a.cols();
  if (k == 0) {
    for (Index r = 0; !adds && r < c.rows; ++r) std::fill_n(c.row(r), c.cols, T{0});
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (a.scale[0].grid.scales || b.scale[0].grid.scales) return multiply_stretches(ta, tb, a, b, adds, c);
    const float scale = a.scale[0].factor * b.scale[0].factor;
    if (a.bf16.data && b.packed.first && (k % kUnitDepth == 0 || !b.bf16.data))
      return gemm(ta, scale, a.bf16, b.packed, beta, c);
    if (a.bf16.data) return gemm(ta, tb, scale, a.bf16, b.bf16, beta, c);
  }
  gemm(ta, tb, T{1}, a.values, b.values, beta, c);
}

// Returns the rows or columns of the first half if the second has another scale; 0 if the operand has one scale.
template <class T>
Index cut_of(const QuantizedOperand<T>& operand) {
  if (operand.halves == Halves::none) return 0;
  const bool scaled_alike = operand.scale[0].factor == operand.scale[1].factor && !operand.scale[0].grid.scales;
  const Index length = operand.halves == Halves::stacked ? operand.rows() : operand.cols();
  return !scaled_alike && operand.half_begin < length ? std::max<Index>(operand.half_begin, 0) : 0;
}

// Returns the second half, or the part of it that `operand` contains.
template <class T>
QuantizedOperand<T> second_half(const QuantizedOperand<T>& operand) {
  const Index first = std::max<Index>(operand.half_begin, 0);
  const bool stacked = operand.halves == Halves::stacked;
  QuantizedOperand<T> second = stacked ? operand.block(first, 0, operand.rows() - first, operand.cols())
                                       : operand.block(0, first, operand.rows(), operand.cols() - first);
  second.scale[0] = second.scale[1];
  second.halves = Halves::none;
  return second;
}

template <class T>
QuantizedOperand<T> without_first_half(const QuantizedOperand<T>& operand) {
  return operand.halves != Halves::none && operand.half_begin <= 0 ? second_half(operand) : operand;
}

// dW of a product, in tasks ------------------------------------------------------------------------------------------

constexpr Index kWeightTaskRows = 64;

int tasks_of(Index length, Index task) {
  return to_int((length + task - 1) / task);
}

// Adds four shards pairwise in one pass: sum = (sum + parts[0]) + (parts[1] + parts[2]), with the parts `stride` apart.
// With two shards, sum = sum + parts[0].
template <class T>
void join_shards(T* __restrict sum, const T* __restrict parts, Index stride, Index count, int shards) {
  assert(shards == 2 || shards == 4);
  if (shards == 2) {
    for (Index i = 0; i < count; ++i) sum[i] += parts[i];
    return;
  }
  for (Index i = 0; i < count; ++i) sum[i] = (sum[i] + parts[i]) + (parts[stride + i] + parts[2 * stride + i]);
}

// dW in tasks of kWeightTaskRows rows. Each task computes one sum per shard; these sums are then added pairwise.
template <class T>
struct WeightGradient {
  const Factors<T>& factors;
  Matrix<T> dw;
  int shards;

  int tasks() const { return tasks_of(dw.rows, kWeightTaskRows); }
  Matrix<T> task_part(int task) const {
    const Index first = task * kWeightTaskRows;
    return dw.row_block(first, std::min(kWeightTaskRows, dw.rows - first));
  }
  void multiply_shard(int task, int shard, const Matrix<T>& to) const {
    const Index count = factors.a.rows() / shards;
    multiply(Trans::yes, Trans::no, factors.a.block(shard * count, task * kWeightTaskRows, count, to.rows),
             factors.b.block(shard * count, 0, count, factors.b.cols()), false, to);
  }
};

// Computes all shards of a task on one thread, so that their sums stay in its cache until they are added.
template <class T>
void task_by_task(const WeightGradient<T>& gradient) {
  parallel_for(gradient.tasks(), [&](int task) {
    const Matrix<T> sum = gradient.task_part(task);
    thread_local std::vector<T> shard_sums;  // separate from the thread's scratch, which may hold the operands
    shard_sums.resize(std::max<std::size_t>(shard_sums.size(), sum.size() * (gradient.shards - 1)));
    gradient.multiply_shard(task, 0, sum);
    for (int s = 1; s < gradient.shards; ++s)
      gradient.multiply_shard(task, s, {shard_sums.data() + (s - 1) * sum.size(), sum.rows, sum.cols});
    if (gradient.shards > 1) join_shards(sum.data, shard_sums.data(), sum.size(), sum.size(), gradient.shards);
  });
}

// Computes the same bits as task_by_task(), but each shard of a task on its own, for more threads than there are tasks.
template <class T>
void shard_by_shard(const WeightGradient<T>& gradient) {
  constexpr Index kJoined = 1 << 14;
  const Index count = gradient.dw.size();
  thread_local std::vector<T> memory;
  memory.resize(std::max<std::size_t>(memory.size(), count * (gradient.shards - 1)));
  T* shard_sums = memory.data();
  parallel_for(gradient.tasks() * gradient.shards, [&](int index) {
    const int task = index / gradient.shards, shard = index % gradient.shards;
    Matrix<T> to = gradient.task_part(task);
    if (shard > 0) to.data = shard_sums + (shard - 1) * count + (to.data - gradient.dw.data);
    gradient.multiply_shard(task, shard, to);
  });
  parallel_slices(count, kJoined, [&](Index first, Index last) {
    join_shards(gradient.dw.data + first, shard_sums + first, count, last - first, gradient.shards);
  });
}

template <class T>
void multiply_in_tasks(Trans ta, Trans tb, Factors<T> factors, bool adds, const Matrix<T>& c, Index task_rows) {
  pack_second(tb, factors.b);
  parallel_for(tasks_of(c.rows, task_rows), [&](int task) {
    const Index first = task * task_rows, count = std::min(task_rows, c.rows - first);
    const QuantizedOperand<T> rows = ta == Trans::yes ? factors.a.block(0, first, factors.a.rows(), count)
                                                      : factors.a.block(first, 0, count, factors.a.cols());
    multiply(ta, tb, rows, factors.b, adds, c.row_block(first, count));
  });
}

template <class T>
void multiply_weight_gradient(Factors<T> factors, const GradientProducts<T>& p) {
  if (p.task_rows == 0) return multiply(Trans::yes, Trans::no, factors.a, factors.b, p.adds_dw, p.dw);
  pack_second(Trans::no, factors.b);
  const WeightGradient<T> gradient{factors, p.dw, p.shards};
  if (p.shards > 1 && gradient.tasks() < num_threads())
    shard_by_shard(gradient);
  else
    task_by_task(gradient);
}

// Returns the operands of dW. If dY is quantized once for both products, its statistics are added to those of both.
template <class T>
Factors<T> weight_factors(const GradientProducts<T>& p, bool once, Threads threads, T* scratch) {
  if (!once) return quantized(p.wgrad_dy, p.x, threads, scratch);
  std::array<QuantSums, 2> counted;
  Operand<T> dy = p.wgrad_dy;
  if (dy.sums) dy.sums = &counted[0];
  if (dy.second_sums) dy.second_sums = &counted[1];
  const Factors<T> factors = quantized(dy, p.x, threads, scratch);
  for (const Operand<T>* operand : {&p.wgrad_dy, &p.dgrad_dy}) {
    if (operand->sums) operand->sums->add(counted[0]);
    if (operand->second_sums) operand->second_sums->add(counted[1]);
  }
  return factors;
}

}  // namespace

bool quantize_alike(const OperandFormat& a, const OperandFormat& b) {
  return a == b && is_nearest_bf16(a);
}

template <class T>
QuantizedOperand<T> QuantizedOperand<T>::block(Index row, Index col, Index n_rows, Index n_cols) const {
  QuantizedOperand piece = *this;
  if (in_bf16())
    piece.bf16 = bf16.block(row, col, n_rows, n_cols);
  else
    piece.values = values.block(row, col, n_rows, n_cols);
  if (halves != Halves::none) piece.half_begin -= halves == Halves::stacked ? row : col;
  const Index across = packed_across ? row : col, along = packed_across ? col : row;
  if (packed.first && across % kUnitRows == 0 && along % kUnitDepth == 0)
    piece.packed.first += across / kUnitRows * packed.panel_stride + along / 2 * packed.pair_stride;
  else
    piece.packed.first = nullptr;
  for (OperandScale& scale : piece.scale)
    scale.grid = axis == BlockAxis::row ? scale.grid.from(col, row) : scale.grid.from(row, col);
  return piece;
}

template <class T>
void multiply(Trans ta, Trans tb, const QuantizedOperand<T>& a, const QuantizedOperand<T>& b, bool adds, Matrix<T> c) {
  const Index cut_a = cut_of(a), cut_b = cut_of(b);
  if (cut_a > 0 && ta == Trans::yes) {
    multiply_part(ta, tb, a.block(0, 0, a.rows(), cut_a), b, adds, c.row_block(0, cut_a));
    multiply_part(ta, tb, second_half(a), b, adds, c.row_block(cut_a, c.rows - cut_a));
  } else if (cut_b > 0 && tb == Trans::yes) {
    multiply_part(ta, tb, a, b.block(0, 0, cut_b, b.cols()), adds, c.col_block(0, cut_b));
    multiply_part(ta, tb, a, second_half(b), adds, c.col_block(cut_b, c.cols - cut_b));
  } else if (cut_a > 0 || cut_b > 0) {
    const Index cut = std::max(cut_a, cut_b), k = a.cols();
    const auto later_part = [&](const QuantizedOperand<T>& operand, bool columns) {
      return operand.halves == Halves::none ? k_slice(columns, operand, cut, k - cut) : second_half(operand);
    };
    multiply_part(ta, tb, k_slice(true, a, 0, cut), k_slice(false, b, 0, cut), adds, c);
    multiply_part(ta, tb, later_part(a, true), later_part(b, false), true, c);
  } else {
    multiply_part(ta, tb, without_first_half(a), without_first_half(b), adds, c);
  }
}

template <class T>
void multiply(Trans ta, Trans tb, const Operand<T>& a, const Operand<T>& b, bool adds, Matrix<T> c, Index task_rows) {
  const Threads threads = task_rows > 0 ? Threads::all : Threads::calling;
  const Factors<T> factors = quantized(a, b, threads, thread_scratch<T>(scratch_of(a) + scratch_of(b)));
  if (task_rows > 0)
    multiply_in_tasks(ta, tb, factors, adds, c, task_rows);
  else
    multiply(ta, tb, factors.a, factors.b, adds, c);
}

template <class T>
void multiply(const GradientProducts<T>& p) {
  const Threads threads = p.task_rows > 0 ? Threads::all : Threads::calling;
  T* scratch =
      thread_scratch<T>(std::max(scratch_of(p.wgrad_dy) + scratch_of(p.x), scratch_of(p.dgrad_dy) + scratch_of(p.w)));
  const bool once = quantize_alike(p.wgrad_dy.format, p.dgrad_dy.format);
  const Factors<T> for_dw = weight_factors(p, once, threads, scratch);
  multiply_weight_gradient(for_dw, p);
  const Factors<T> for_dx = once ? quantized_after(for_dw.a, p.dgrad_dy, p.w, threads, scratch)
                                 : quantized(p.dgrad_dy, p.w, threads, scratch);
  if (p.task_rows > 0)
    multiply_in_tasks(Trans::no, Trans::no, for_dx, p.adds_dx, p.dx, p.task_rows);
  else
    multiply(Trans::no, Trans::no, for_dx.a, for_dx.b, p.adds_dx, p.dx);
}

#define INSTANTIATE(T)                                                                                              \
  template struct QuantizedOperand<T>;                                                                              \
  template void multiply<T>(Trans, Trans, const QuantizedOperand<T>&, const QuantizedOperand<T>&, bool, Matrix<T>); \
  template void multiply<T>(Trans, Trans, const Operand<T>&, const Operand<T>&, bool, Matrix<T>, Index);            \
  template void multiply<T>(const GradientProducts<T>&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
