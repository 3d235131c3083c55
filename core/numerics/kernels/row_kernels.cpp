#include "core/numerics/kernels/row_kernels.h"

#include <algorithm>
#include <type_traits>

#include "core/numerics/kernels/careful_kernels.h"
#include "core/numerics/kernels/lane_joins.h"
#include "core/numerics/kernels/lane_sums.h"
#include "core/numerics/kernels/simd.h"

namespace moescope {
namespace {

constexpr std::size_t kWidth = kLanes<float>;

// Calls body(width), with the usual widths as constants when they divide the rows.
template <class Body>
MOESCOPE_INLINE void for_width(const Tile& t, std::size_t width, const Body& body) {
  if (width == 32 && t.cols % 32 == 0) return body(std::integral_constant<std::size_t, 32>());
  if (width == 16 && t.cols % 16 == 0) return body(std::integral_constant<std::size_t, 16>());
  body(width);
}

// `count` values from column c on, the last ones of the row at most; a constant of for_width divides the row.
MOESCOPE_INLINE std::size_t block_length(std::size_t cols, std::size_t c, std::size_t width) {
  return std::min(width, cols - c);
}
template <std::size_t kBlock>
MOESCOPE_INLINE std::size_t block_length(std::size_t, std::size_t, std::integral_constant<std::size_t, kBlock>) {
  return kBlock;
}

// body(row, column, block) for all blocks, of which the last of a row may be shorter; `to` gets what it returns for
// each, joined over the lanes. Row by row, four blocks at a time; `at_row(r)` is what body is told of a row.
template <class T, class Width, class Join, class AtRow, class Body>
MOESCOPE_INLINE void for_each_block(const Tile& t, Width width, T* __restrict to, Join join, const AtRow& at_row,
                                    const Body& body) {
  const std::size_t rows = t.rows, cols = t.cols;
  std::size_t j = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const auto row = at_row(r);
    std::size_t c = 0;
    for (; c + 3 * width < cols; c += 4 * width, j += 4) {
      Lanes<T> v[4];
#pragma GCC unroll 4
      for (std::size_t k = 0; k < 4; ++k) v[k] = body(row, c + k * width, j + k);
      const Four<T> four = joined_four<T>(v, join);
      std::memcpy(to + j, &four, sizeof(four));
    }
    for (; c < cols; c += width, ++j) {
      const Lanes<T> v[4] = {body(row, c, j)};
      to[j] = joined_four<T>(v, join)[0];
    }
  }
}

template <class Width>
MOESCOPE_INLINE void find_amax(const Tile& t, Width width, std::int32_t* amax_bits) {
  const std::size_t cols = t.cols;
  for_each_block<std::int32_t>(
      t, width, amax_bits, kLarger, [&](std::size_t r) __attribute__((always_inline)) { return t.x + r * t.stride; },
      [&](const float* in, std::size_t c, std::size_t) __attribute__((always_inline)) {
        Ints top{};
        for_each_vector(
            in + c, block_length(cols, c, width),
            cols - c, [&](std::size_t, Floats x, std::size_t) __attribute__((always_inline)) {
              top = larger(top, magnitude_bits(x));
            });
        return top;
      });
}

struct Row {
  const float* in;
  const float* next;
  float* out;
  RowKey key;
};

template <Way kWay, bool kSums, bool kLines, class Width>
MOESCOPE_INLINE void quantize_rows(const Scaling& s, const Tile& t, Width width, const Target& to, Batch& b,
                                   Totals& totals) {
  const Target target = to;  // a copy, which no writing changes
  const std::size_t cols = t.cols;
  const std::uint32_t* column_keys = t.column_keys;
  const LaneRounding f = lane_rounding(s.rounding);
  const Floats clip_limit = splat(s.clip_limit), inverse_unit = splat(b.inverse_unit);
  Floats q2{}, err2{};
  Counts counts;
  const auto at_row = [&](std::size_t r) __attribute__((always_inline)) {
    return Row{t.x + r * t.stride, t.next + r * t.next_stride, t.out + r * t.out_stride, row_key_of<kWay>(t, r)};
  };
  const auto quantize_block = [&](const Row& row, std::size_t c, std::size_t j) __attribute__((always_inline)) {
    const Floats encode = splat_at<kLines>(b.scales.encode.data() + j);
    const Floats decode = splat_at<kLines>(b.scales.decode.data() + j);
    Floats x2{};
    for_each_vector(
        row.in + c, block_length(cols, c, width),
        cols - c, [&](std::size_t i, Floats x, std::size_t lanes) __attribute__((always_inline)) {
          __builtin_prefetch(row.next + c + i, 0, kSecondCache);
          const Words draws = draws_of<kWay>(row.key, column_keys + c + i);
          const Quantized v = quantize_lanes<kWay>(f, x, encode, decode, draws);
          write_vector<kLines>(target, row.out + c + i, v.value, lanes);
          if constexpr (kSums) {
            // A block's own in units of its scale; the others, in that of the batch, need not be told apart by block.
            const Floats q = v.value * inverse_unit, error = (x - v.value) * inverse_unit;
            x2 += v.y * v.y;
            q2 += q * q;
            err2 += error * error;
            add_counts<kWay>(v, clip_limit, counts);
          }
        });
    return x2;
  };
  for_each_block<float>(t, width, b.x2.data(), kSum, at_row, quantize_block);
  if constexpr (kSums) {
    totals.q2 += sum_of<float>(q2), totals.err2 += sum_of<float>(err2);
    add_counts(counts, totals);
  }
}

#define MOESCOPE_ROWS(name, way)                                                                                     \
  MOESCOPE_SIMD void rows_##name(const Scaling& s, const Tile& t, std::size_t width, const Target& target, Batch& b, \
                                 Totals& totals) {                                                                   \
    quantize_rows<way, false, false>(s, t, width, target, b, totals);                                                \
  }                                                                                                                  \
  MOESCOPE_ROW_SUMS(MOESCOPE_SIMD, rows_##name##_sums, way, false)                                                   \
  MOESCOPE_ROW_SUMS(MOESCOPE_SIMD_LINES, rows_##name##_sums_lines, way, true)
#define MOESCOPE_ROW_SUMS(simd, name, way, lines)                                                                      \
  simd void name(const Scaling& s, const Tile& t, std::size_t width, const Target& target, Batch& b, Totals& totals) { \
    for_width(                                                                                                         \
        t, width, [&](auto w) __attribute__((always_inline)) {                                                         \
          quantize_rows<way, true, lines>(s, t, w, target, b, totals);                                                 \
        });                                                                                                            \
  }
MOESCOPE_FOR_EACH_WAY(MOESCOPE_ROWS)
#undef MOESCOPE_ROW_SUMS
#undef MOESCOPE_ROWS

}  // namespace

QuantizeRows rows_function(const OperandFormat& format, bool clips, bool sums, bool lines) {
  const Way way = way_of(format, clips);
#define MOESCOPE_NAMES(name, way) {rows_##name, rows_##name##_sums, rows_##name##_sums_lines},
  constexpr QuantizeRows kFunctions[][3] = {MOESCOPE_FOR_EACH_WAY(MOESCOPE_NAMES)};
#undef MOESCOPE_NAMES
  return kFunctions[static_cast<int>(way)][sums ? 1 + lines : 0];
}

MOESCOPE_SIMD void find_row_amax(const Tile& t, std::size_t width, std::int32_t* amax_bits) {
  for_width(
      t, width, [&](auto w) __attribute__((always_inline)) { find_amax(t, w, amax_bits); });
}

}  // namespace moescope
