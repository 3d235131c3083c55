#include "core/numerics/kernels/value_kernels.h"

#include <algorithm>
#include <bit>

#include "core/numerics/kernels/element_lanes.h"
#include "core/numerics/kernels/simd.h"
#include "core/numerics/kernels/streaming.h"

namespace moescope {
namespace {

constexpr std::size_t kWidth = kLanes<float>;
constexpr std::size_t kFlushElements = 4096;       // squares over lanes are taken over so many in float32
constexpr std::int32_t kTopBf16Bits = 0x7F7F0000;  // bf16's largest number: what is above it may become infinite
constexpr std::uint32_t kBf16Mask = 0xFFFF0000;

enum class Values : std::uint8_t { copied, bf16_nearest, bf16_stochastic };

// `kSafe`: all values are below kTopBf16Bits.
template <Values kValues, bool kSafe>
MOESCOPE_INLINE Floats rounded(Floats x, Words draw) {
  if constexpr (kValues == Values::copied) return x;
  const Words bits = (Words)x;
  const Words nearest = (bits + 0x7FFF + (bits >> 16 & 1)) & kBf16Mask;
  const Words up = kValues == Values::bf16_stochastic ? (bits + (draw >> 16)) & kBf16Mask : nearest;
  if constexpr (kSafe) return (Floats)up;
  const Ints magnitude = magnitude_bits(x);
  const Words quiet_nan = (bits | 0x00400000) & kBf16Mask;
  return (Floats)(magnitude > kInfinityBits ? quiet_nan : (magnitude == kInfinityBits ? bits : up));
}

struct ValueSums {
  Floats x2{}, q2{}, err2{};
  Words nonzero{}, nonzero_out{};
  Ints clipped{};
};

// Sums leave out elements that are not finite, before or after.
template <bool kSafe>
MOESCOPE_INLINE void add_lanes(Floats x, Floats q, float inverse_unit, ValueSums& s) {
  const Ints x_bits = magnitude_bits(x), q_bits = magnitude_bits(q);
  Floats a = (Floats)x_bits * inverse_unit, b = (Floats)q_bits * inverse_unit;
  if constexpr (!kSafe) {
    a = q_bits < kInfinityBits ? a : Floats{};
    b = q_bits < kInfinityBits ? b : Floats{};
    s.clipped -= (x_bits < kInfinityBits) & (q_bits >= kInfinityBits);
  }
  s.x2 += a * a;
  s.q2 += b * b;
  s.err2 += (a - b) * (a - b);
  s.nonzero = counted(s.nonzero, x_bits);
  s.nonzero_out = counted(s.nonzero_out, q_bits);
}

struct Stretch {
  Tile tile;
  Target target;
  float inverse_unit;
};

template <Values kValues, bool kSafe>
MOESCOPE_INLINE void convert(const Stretch& stretch, ValueSums* sums) {
  const Tile& t = stretch.tile;
  ValueSums s;
  for (std::size_t r = 0; r < t.rows; ++r) {
    const RowKey key = row_key(t.key.seed, t.key.stream, t.key.first_row + r);
    const float *in = t.x + r * t.stride, *next = t.next + r * t.next_stride;
    float* out = t.out + r * t.out_stride;
    for_each_vector(
        in, t.cols, [&](std::size_t i, Floats x, std::size_t lanes) __attribute__((always_inline)) {
          __builtin_prefetch(next + i, 0, kSecondCache);
          Words draw{};
          if constexpr (kValues == Values::bf16_stochastic) draw = draw_bits(key, load(t.column_keys + i));
          const Floats q = rounded<kValues, kSafe>(x, draw);
          write_lanes(stretch.target, out + i, q, lanes);
          if (sums) add_lanes<kSafe>(x, q, stretch.inverse_unit, s);
        });
  }
  if (sums) *sums = s;
}

#define MOESCOPE_VALUES(name)                                               \
  MOESCOPE_SIMD void name##_safe(const Stretch& stretch, ValueSums* sums) { \
    convert<Values::name, true>(stretch, sums);                             \
  }                                                                         \
  MOESCOPE_SIMD void name##_any(const Stretch& stretch, ValueSums* sums) {  \
    convert<Values::name, false>(stretch, sums);                            \
  }
MOESCOPE_VALUES(copied)
MOESCOPE_VALUES(bf16_nearest)
MOESCOPE_VALUES(bf16_stochastic)
#undef MOESCOPE_VALUES

using Convert = void (*)(const Stretch&, ValueSums*);
Convert converter(Values values, bool safe) {
  constexpr Convert kConverters[][2] = {
      {copied_any, copied_safe}, {bf16_nearest_any, bf16_nearest_safe}, {bf16_stochastic_any, bf16_stochastic_safe}};
  return kConverters[static_cast<int>(values)][safe];
}

MOESCOPE_SIMD std::int32_t finite_amax_bits(const float* __restrict x, std::size_t count, std::int32_t top) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t bits = std::bit_cast<std::int32_t>(x[i]) & kMagnitudeMask;
    top = std::max(top, bits < kInfinityBits ? bits : 0);
  }
  return top;
}

void convert_rows(Values values, const Tile& t, const Target& target, QuantSums* sums) {
  const std::int32_t amax_bits = std::bit_cast<std::int32_t>(tile_amax(t));
  const bool safe = amax_bits < kTopBf16Bits;
  std::int32_t top = safe ? amax_bits : 0;
  if (!safe)
    for (std::size_t r = 0; r < t.rows; ++r) top = finite_amax_bits(t.x + r * t.stride, t.cols, top);
  const std::int32_t exponent = std::clamp(top >> 23, 1, 253);
  ValueSums s;
  converter(values, safe)({t, target, std::bit_cast<float>((254 - exponent) << 23)}, sums ? &s : nullptr);
  if (!sums) return;
  const double unit = std::bit_cast<double>(static_cast<std::int64_t>(exponent - 127 + 1023) << 52);
  const double unit2 = unit * unit, x2 = sum_of<float>(s.x2), q2 = sum_of<float>(s.q2), err2 = sum_of<float>(s.err2);
  const std::uint64_t nonzero = sum_of<std::uint32_t>(s.nonzero);
  sums->x2 += x2 * unit2, sums->q2 += q2 * unit2, sums->err2 += err2 * unit2;
  sums->xq += (x2 + q2 - err2) / 2 * unit2;  // x2 - 2 xq + q2 = err2
  sums->elements += t.rows * t.cols;
  sums->nonzero += nonzero;
  sums->underflow += nonzero - sum_of<std::uint32_t>(s.nonzero_out);
  sums->clipped += static_cast<std::uint64_t>(sum_of<std::int32_t>(s.clipped));
  sums->amax = std::max(sums->amax, std::bit_cast<float>(top));
}

void convert_tile(Values values, const Tile& t, QuantSums* sums) {
  const Target target = target_of(t);
  const std::size_t cols = std::min(t.cols, kFlushElements), rows = kFlushElements / cols;
  for_each_part_ahead(t, rows, cols, [&](const Tile& part) { convert_rows(values, part, target, sums); });
}

}  // namespace

void copy_values(const Tile& t, QuantSums* sums) {
  convert_tile(Values::copied, t, sums);
}

void round_values_bf16(const Tile& t, Rounding rounding, QuantSums* sums) {
  convert_tile(rounding == Rounding::nearest ? Values::bf16_nearest : Values::bf16_stochastic, t, sums);
}

}  // namespace moescope
