#include "core/model/layers/product.h"

#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>

#include "core/model/layers/operand.h"
#include "core/model/layers/precision.h"
#include "core/numerics/aligned_buffer.h"
#include "core/numerics/kernels/narrow_native.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/threads.h"
#include "core/numerics/size.h"
#include "core/numerics/unit_gemm.h"

namespace moescope {
namespace {

template <class T>
bool plain(const OperandSource<T>& source) {
  return !source.format || is_plain(*source.format);
}

template <class T>
bool fits(const OperandSource<T>& source) {
  return source.format && fits_bf16(*source.format);
}

// From the first element to the end of the last row of all parts.
template <class T>
std::size_t extent(const OperandSource<T>& s) {
  const auto last = s.part[size(s.parts - 1)].in - s.part[0].in;
  return s.rows == 0 ? 0 : static_cast<std::size_t>(last) + size(s.rows - 1) * size(s.stride) + size(s.cols);
}

// Scales of an operand's grid along the contracting dimension and across it, of one part.
struct GridExtent {
  std::size_t along, across;
};
template <class T>
GridExtent grid_of(const OperandSource<T>& s) {
  const ScaleBlock block = fp8_block(s.format->granularity);
  const auto blocks = [](int n, std::size_t of) { return n == 0 ? 0 : (size(n) - 1) / of + 1; };
  const bool columns = s.axis == BlockAxis::row;
  return {blocks(columns ? s.cols : s.rows, block.along), blocks(columns ? s.rows : s.cols, block.across)};
}

template <class T>
bool side_by_side(const OperandSource<T>& s) {
  return s.parts == 2 && s.part[1].in - s.part[0].in < s.stride;
}

template <class T>
std::size_t in_lines(std::size_t count) {
  constexpr std::size_t kLine = 64 / sizeof(T);
  return (count + kLine - 1) / kLine * kLine;
}

// Whole cache lines, for the second operand to begin on one. BF16 numbers take half of it and scales come after them.
template <class T>
std::size_t scratch_of(const OperandSource<T>& source) {
  if (plain(source)) return 0;
  const std::size_t values = in_lines<T>(extent(source));
  if (!has_scale_grid(*source.format)) return values;
  const GridExtent grid = grid_of(source);
  return values + in_lines<T>(size(source.parts) * grid.along * grid.across);
}

template <class T>
GemmInput<T> input_of(const OperandSource<T>& s) {
  GemmInput<T> input;
  input.stride = s.stride;
  if (s.parts == 2) input.cut = side_by_side(s) ? s.cols : s.rows;
  return input;
}

template <class T>
GemmInput<T> in_full(const OperandSource<T>& s, bool in_bands, bool count, T* out) {
  GemmInput<T> input = input_of(s);
  input.values = plain(s) ? s.part[0].in : out;
  for (int i = 0; i < s.parts && !plain(s); ++i) {
    const OperandPart<T>& part = s.part[size(i)];
    const auto quantize = in_bands ? quantize_in_bands<T> : quantize_alone<T>;
    quantize(*s.format, part.in, s.rows, s.cols, size(s.stride), s.axis, part.key, out + (part.in - s.part[0].in),
             count ? part.sums : nullptr);
  }
  return input;
}

// Parts that lie along the contracting dimension have their scales after each other there, others across it.
ScaleGrid place_grid(const OperandSource<float>& s, float* scales, GemmInput<float>& input) {
  const ScaleBlock block = fp8_block(s.format->granularity);
  const GridExtent grid = grid_of(s);
  input.along_columns = s.axis == BlockAxis::row;
  const bool parts_along = s.parts == 2 && side_by_side(s) == input.along_columns;
  input.grid = scales;
  input.grid_stride = grid.across * (parts_along ? 1 : size(s.parts));
  const auto places = [&](int extent, std::size_t of, std::size_t count) {
    return ScalePlaces{.block = static_cast<int>(std::min(of, size(std::numeric_limits<int>::max()))),
                       .part = std::max(extent, 1),
                       .per_part = static_cast<int>(count)};
  };
  input.along = places(input.along_columns ? s.cols : s.rows, block.along, grid.along);
  input.across = places(input.along_columns ? s.rows : s.cols, block.across, grid.across);
  return {scales, input.grid_stride};
}

// False: BF16 lacks one of the numbers.
bool in_bf16(const OperandSource<float>& s, bool in_bands, float* scratch, GemmInput<float>& input) {
  auto* out = reinterpret_cast<Bf16*>(scratch);
  input = input_of(s);
  input.bf16 = out;
  bool all_fit = true;
  ScaleGrid grid;
  std::size_t step = 0;  // from one part's scales to the other's
  if (has_scale_grid(*s.format)) {
    grid = place_grid(s, scratch + in_lines<float>(extent(s)), input);
    step = s.parts == 2 && input.grid_stride == grid_of(s).across ? grid_of(s).along * input.grid_stride
                                                                  : grid_of(s).across;
  }
  for (int i = 0; i < s.parts; ++i) {
    const OperandPart<float>& part = s.part[size(i)];
    const ScaleGrid own{grid.scales ? grid.scales + size(i) * step : nullptr, grid.stride};
    const MatrixView in{part.in, size(s.rows), size(s.cols), size(s.stride)};
    Bf16* to = out + (part.in - s.part[0].in);
    float& scale = input.scale[size(i)];
    all_fit &= in_bands ? quantize_in_bands_bf16(*s.format, in, s.axis, part.key, to, scale, own, part.sums)
                        : quantize_operand_bf16(*s.format, in, s.axis, part.key, to, in.stride, scale, own, part.sums);
  }
  return all_fit;
}

// The calling thread's, for a second operand.
Bf16* panels_for(int n, int k) {
  thread_local AlignedBuffer<Bf16> buffer;
  return buffer.of(panel_elements(n, k));
}

// Whether a second operand is laid out for matrix units as it is converted: BF16 that nobody counts, contracted along
// rows that lie below each other, in one product with `first`.
bool lays_out_at_once(const GemmInput<float>& first, const OperandSource<float>& s) {
  const bool counted = s.part[0].sums || s.part[1].sums, one_product = !first.grid && first.scale[0] == first.scale[1];
  return s.axis == BlockAxis::column && !counted && one_product && is_nearest_bf16(*s.format) &&
         (s.parts == 1 || s.part[1].in == s.part[0].in + size(s.rows) * size(s.stride));
}

// False: BF16 lacks one of the numbers.
bool in_bf16_panels(const OperandSource<float>& s, bool in_bands, GemmInput<float>& input) {
  constexpr int kBand = 2 * kUnitDepth;
  const int k = s.parts * s.rows, depth = to_tiles(k, kUnitDepth), bands = (k + kBand - 1) / kBand;
  Bf16* memory = panels_for(s.cols, k);
  const PairedOperand panels = in_panels(memory, depth);
  std::atomic<bool> all_fit{true};
  const auto lay_out_band = [&](int band) {
    const int first = band * kBand;
    if (!narrow_to_panels(s.part[0].in + size(first) * size(s.stride), std::min(kBand, k - first), s.cols, s.stride,
                          memory + size(first / 2) * size(panels.pair_stride), panels.panel_stride))
      all_fit.store(false, std::memory_order_relaxed);
  };
  if (in_bands)
    parallel_for(bands, lay_out_band);
  else
    for (int band = 0; band < bands; ++band) lay_out_band(band);
  input = {};
  input.panels = panels;
  return all_fit;
}

// Whether matrix units may multiply them.
template <class T>
bool on_units(const OperandSource<T>& a, const OperandSource<T>& b) {
  return std::is_same_v<T, float> && fits(a) && fits(b) && has_matrix_unit();
}

// `a` as it was taken, and b for the same unit; both in FP32 if BF16 lacks one of b's numbers.
template <class T>
GemmInputs<T> with_second(const GemmInput<T>& taken, const OperandSource<T>& a, const OperandSource<T>& b,
                          bool in_bands, T* scratch) {
  T* second = scratch + scratch_of(a);
  if constexpr (std::is_same_v<T, float>) {
    if (taken.bf16) {
      GemmInputs<T> inputs{taken, {}};
      if (lays_out_at_once(taken, b) ? in_bf16_panels(b, in_bands, inputs.b) : in_bf16(b, in_bands, second, inputs.b))
        return inputs;
      return {in_full(a, in_bands, false, scratch), in_full(b, in_bands, false, second)};
    }
  }
  return {taken, in_full(b, in_bands, true, second)};
}

// What the scales of a grid's row `along` are for `count` elements across; all 1 without a grid.
void take_scales(const GemmInput<float>& input, int along, int count, float* out) {
  if (!input.grid) return void(std::fill_n(out, count, 1.0f));
  const float* scales = input.grid + size(input.along.index(along)) * input.grid_stride;
  for (int i = 0; i < count; ++i) out[i] = scales[input.across.index(i)];
}

// Of operands with a grid of scales: a product for each stretch of the contracting dimension under the same scales, its
// sums scaled and added in FP32, as kernels of DeepSeek-V3's FP8 training promote theirs.
void multiply_stretches(Trans ta, Trans tb, int m, int n, int k, const GemmInput<float>& a, const GemmInput<float>& b,
                        bool adds, float* c, int ldc) {
  thread_local std::vector<float> sums, a_scales, b_scales;
  const auto grown = [](std::vector<float>& of, std::size_t count) {
    if (of.size() < count) of.resize(count);
    return of.data();
  };
  float *part = grown(sums, size(m) * size(n)), *of_a = grown(a_scales, size(m)), *of_b = grown(b_scales, size(n));
  for (int done = 0, count = 0; done < k; done += count) {
    count = k - done;
    if (a.grid) count = std::min(count, a.along.left(done));
    if (b.grid) count = std::min(count, b.along.left(done));
    const GemmInput<float> a_rest = ta == Trans::yes ? a.from(done, 0) : a.from(0, done);
    const GemmInput<float> b_rest = tb == Trans::yes ? b.from(0, done) : b.from(done, 0);
    gemm(ta, tb, m, n, count, a.scale[0] * b.scale[0], a_rest.bf16, a.stride, b_rest.bf16, b.stride, 0.0f, part, n);
    take_scales(a, done, m, of_a);
    take_scales(b, done, n, of_b);
    const bool first = done == 0 && !adds;
    for (int i = 0; i < m; ++i) {
      float* to = c + size(i) * size(ldc);
      const float* from = part + size(i) * size(n);
      if (first)
        for (int j = 0; j < n; ++j) to[j] = of_a[i] * of_b[j] * from[j];
      else
        for (int j = 0; j < n; ++j) to[j] += of_a[i] * of_b[j] * from[j];
    }
  }
}

// A product whose operands have one scale each, or a grid.
template <class T>
void multiply_part(Trans ta, Trans tb, int m, int n, int k, const GemmInput<T>& a, const GemmInput<T>& b, bool adds,
                   T* c, int ldc) {
  const T beta = adds ? T{1} : T{0};
  if constexpr (std::is_same_v<T, float>) {
    if ((a.grid || b.grid) && k > 0) return multiply_stretches(ta, tb, m, n, k, a, b, adds, c, ldc);
    const float scale = a.scale[0] * b.scale[0];
    if (a.bf16 && b.panels.first && (k % kUnitDepth == 0 || !b.bf16))
      return gemm(ta, m, n, k, scale, a.bf16, a.stride, b.panels, beta, c, ldc);
    if (a.bf16) return gemm(ta, tb, m, n, k, scale, a.bf16, a.stride, b.bf16, b.stride, beta, c, ldc);
  }
  gemm(ta, tb, m, n, k, T{1}, a.values, a.stride, b.values, b.stride, beta, c, ldc);
}

}  // namespace

template <class T>
GemmInput<T> GemmInput<T>::from(int row, int column) const {
  GemmInput rest = *this;
  const std::size_t skipped = size(row) * size(stride) + size(column);
  if (values) rest.values += skipped;
  if (bf16) rest.bf16 += skipped;
  rest.cut -= column;
  const int across = panels_across ? row : column, along = panels_across ? column : row;
  if (across % kUnitRows == 0 && along % kUnitDepth == 0)
    rest.panels.first +=
        size(across / kUnitRows) * size(panels.panel_stride) + size(along / 2) * size(panels.pair_stride);
  else
    rest.panels.first = nullptr;
  rest.along.first += along_columns ? column : row;
  rest.across.first += along_columns ? row : column;
  return rest;
}

template <class T>
std::size_t scratch_for(const OperandSource<T>& a, const OperandSource<T>& b) {
  return scratch_of(a) + scratch_of(b);
}

template <class T>
GemmInputs<T> quantized(const OperandSource<T>& a, const OperandSource<T>& b, bool in_bands, T* scratch) {
  bool counted = false;
  if constexpr (std::is_same_v<T, float>) {
    if (on_units(a, b)) {
      GemmInput<T> taken;
      if (in_bf16(a, in_bands, scratch, taken)) return with_second(taken, a, b, in_bands, scratch);
      counted = true;
    }
  }
  return with_second(in_full(a, in_bands, !counted, scratch), a, b, in_bands, scratch);
}

template <class T>
GemmInputs<T> quantized_after(const GemmInput<T>& taken, const OperandSource<T>& a, const OperandSource<T>& b,
                              bool in_bands, T* scratch) {
  if (on_units(a, b) == (taken.bf16 != nullptr)) return with_second(taken, a, b, in_bands, scratch);
  OperandSource<T> uncounted = a;
  for (OperandPart<T>& part : uncounted.part) part.sums = nullptr;
  return quantized(uncounted, b, in_bands, scratch);
}

template <class T>
void lay_out_second(Trans tb, int n, int k, GemmInput<T>& b) {
  if (!b.bf16 || b.grid) return;
  constexpr int kColumns = 4 * kUnitRows;
  Bf16* panels = panels_for(n, k);
  parallel_for((n + kColumns - 1) / kColumns, [&](int task) {
    const int first = task * kColumns, count = std::min(kColumns, n - first);
    const Bf16* in = b.bf16 + (tb == Trans::yes ? size(first) * size(b.stride) : size(first));
    lay_out(tb, count, k, in, b.stride, panels + panel_elements(first, k));
  });
  b.panels = in_panels(panels, to_tiles(k, kUnitDepth));
  b.panels_across = tb == Trans::yes;
}

template <class T>
void multiply(Trans ta, Trans tb, int m, int n, int k, const GemmInput<T>& a, const GemmInput<T>& b, bool adds, T* c,
              int ldc) {
  // Where scales change within the product, it is one of each side.
  const auto second = [](GemmInput<T> input, int row, int column) {
    input = input.from(row, column);
    input.scale[0] = input.scale[1];
    return input;
  };
  const bool cuts_a = a.scale[0] != a.scale[1] && a.cut > 0 && a.cut < (ta == Trans::yes ? m : k);
  const bool cuts_b = b.scale[0] != b.scale[1] && b.cut > 0 && b.cut < (tb == Trans::yes ? n : k);
  if (cuts_a && ta == Trans::yes) {
    multiply_part(ta, tb, a.cut, n, k, a, b, adds, c, ldc);
    multiply_part(ta, tb, m - a.cut, n, k, second(a, 0, a.cut), b, adds, c + size(a.cut) * size(ldc), ldc);
  } else if (cuts_b && tb == Trans::yes) {
    multiply_part(ta, tb, m, b.cut, k, a, b, adds, c, ldc);
    multiply_part(ta, tb, m, n - b.cut, k, a, second(b, b.cut, 0), adds, c + b.cut, ldc);
  } else if (cuts_a || cuts_b) {
    const int cut = cuts_a ? a.cut : b.cut;
    multiply_part(ta, tb, m, n, cut, a, b, adds, c, ldc);
    multiply_part(ta, tb, m, n, k - cut, second(a, 0, cut), second(b, cut, 0), true, c, ldc);
  } else {
    const GemmInput<T> first_a = a.cut <= 0 ? second(a, 0, 0) : a, first_b = b.cut <= 0 ? second(b, 0, 0) : b;
    multiply_part(ta, tb, m, n, k, first_a, first_b, adds, c, ldc);
  }
}

#define INSTANTIATE(T)                                                                                             \
  template struct GemmInput<T>;                                                                                    \
  template std::size_t scratch_for<T>(const OperandSource<T>&, const OperandSource<T>&);                           \
  template void lay_out_second<T>(Trans, int, int, GemmInput<T>&);                                                 \
  template GemmInputs<T> quantized<T>(const OperandSource<T>&, const OperandSource<T>&, bool, T*);                 \
  template GemmInputs<T> quantized_after<T>(const GemmInput<T>&, const OperandSource<T>&, const OperandSource<T>&, \
                                            bool, T*);                                                             \
  template void multiply<T>(Trans, Trans, int, int, int, const GemmInput<T>&, const GemmInput<T>&, bool, T*, int);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
