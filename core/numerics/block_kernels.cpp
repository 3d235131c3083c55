#include "core/numerics/block_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/numerics/float_rounding.h"
#include "core/numerics/simd.h"

namespace moescope {
namespace {

constexpr std::int32_t kMagnitudeMask = 0x7FFFFFFF;
constexpr std::int32_t kInfinityBits = 0x7F800000;
constexpr std::int32_t kMinNormalBits = 0x00800000;
constexpr std::int32_t kSmallestScaleBits = 0x00400000;  // 2^-127
// From 2^127 on a scale code may be 255, or a decoded value infinite.
constexpr std::int32_t kLimitBits = 0x7F000000;
constexpr std::int32_t kOneBits = 0x3F800000;

// scale_code as arithmetic without branches: code = ((bits(amax * factor) + carry) >> 23) - subtract, clamped.
struct ScaleArithmetic {
  float factor;
  std::int32_t carry, carry_subnormal, subtract;
};

ScaleArithmetic arithmetic_of(const BlockFormat& format) {
  const FormatTraits& f = traits(format.element);
  const std::int32_t half = 1 << (22 - f.mantissa_bits);
  switch (format.rule) {
    case ScaleRule::floor:
      return {1.0f, 0, 0, f.emax};
    case ScaleRule::ceil:
      return {1.0f, 0x7FFFFF, 0x7FFFFF, f.emax};
    case ScaleRule::even:
      return {1.0f, half, half, f.emax};
    case ScaleRule::rceil:
      break;
  }
  return {1.0f / f.max, 0x7FFFFF, 0x3FFFFF, 0};
}

// kBlocks blocks, consecutive ones of a row or neighbouring columns; unused ones have amax 0 and x2 0.
template <std::size_t kBlocks>
struct Batch {
  alignas(64) std::int32_t amax_bits[kBlocks];
  alignas(64) std::int32_t code[kBlocks];
  alignas(64) float inverse[kBlocks];  // 2^(127 - code)
  alignas(64) float scale[kBlocks];    // 2^(code - 127)
  alignas(64) float weight[kBlocks];   // 2^(code - top_code)
  alignas(64) float x2[kBlocks];       // sum of squares after scaling
  std::int32_t top_code;
};

// Sums over the whole batch by lane, in units of the largest scale.
struct LaneSums {
  alignas(64) float q2[kLanes] = {};
  alignas(64) float err2[kLanes] = {};
  alignas(64) std::int32_t zero_in[kLanes] = {};
  alignas(64) std::int32_t zero_out[kLanes] = {};
  alignas(64) std::int32_t clipped[kLanes] = {};
};

[[gnu::always_inline]] inline std::int32_t bits_of(float v) {
  return std::bit_cast<std::int32_t>(v);
}
[[gnu::always_inline]] inline float float_of(std::int32_t bits) {
  return std::bit_cast<float>(bits);
}

// False when a block reaches kLimitBits.
template <std::size_t kBlocks>
[[gnu::always_inline]] inline bool find_scales(const ScaleArithmetic& a, Batch<kBlocks>& b) {
  std::int32_t top_amax = 0, top_code = 0;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const std::int32_t d = bits_of(float_of(b.amax_bits[i]) * a.factor);
    const std::int32_t carry = d < kMinNormalBits ? a.carry_subnormal : a.carry;
    const std::uint32_t carried = static_cast<std::uint32_t>(d) + static_cast<std::uint32_t>(carry);  // NaN may wrap
    const std::int32_t code = std::clamp(static_cast<std::int32_t>(carried >> 23) - a.subtract, 0, 254);
    b.code[i] = code;
    top_amax = std::max(top_amax, b.amax_bits[i]);
    top_code = std::max(top_code, code);
  }
  b.top_code = top_code;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const std::int32_t code = b.code[i];
    // A block of zeros is scaled by 1 instead of by a subnormal, which some processors are slow at.
    const std::int32_t least = b.amax_bits[i] == 0 ? kOneBits : kSmallestScaleBits;
    b.scale[i] = float_of(code == 0 ? least : code << 23);
    b.inverse[i] = float_of(code == 254 ? kSmallestScaleBits : (254 - code) << 23);
    b.weight[i] = float_of(std::max(127 + code - top_code, 0) << 23);
  }
  return top_amax < kLimitBits;
}

struct Rounded {
  float y, r;  // magnitude after scaling, and rounded
};

// Like round_magnitude, but no scale rule lets a scaled value pass 2 * max.
[[gnu::always_inline]] inline Rounded round_scaled(const ElementRounding& f, std::int32_t bits, float inverse) {
  const float y = float_of(bits & kMagnitudeMask) * inverse;
  const float magic = float_of(std::max(bits_of(y) & kInfinityBits, f.min_normal_bits) + f.magic_offset);
  const float r = (y + magic) - magic;
  return {y, r < f.max ? r : f.max};
}

[[gnu::always_inline]] inline float with_sign(float magnitude, std::int32_t bits) {
  return float_of(bits_of(magnitude) | (bits & ~kMagnitudeMask));
}

[[gnu::always_inline]] inline std::uint64_t total(const std::int32_t (&lanes)[kLanes]) {
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < kLanes; ++i) sum += lanes[i];
  return static_cast<std::uint64_t>(sum);
}

// Adds (or otherwise joins) neighbours until kCount values are left of n; in place.
template <std::size_t kCount, std::size_t kSize, class T, class Join>
[[gnu::always_inline]] inline void fold_neighbours(T (&values)[kSize], Join join) {
  if constexpr (kSize > kCount) {
    alignas(64) T half[kSize / 2];
    for (std::size_t i = 0; i < kSize / 2; ++i) half[i] = join(values[2 * i], values[2 * i + 1]);
    fold_neighbours<kCount>(half, join);
    for (std::size_t i = 0; i < kCount; ++i) values[i] = half[i];
  }
}

template <std::size_t kWidth>
[[gnu::always_inline]] inline float tree_sum(float (&lanes)[kWidth]) {
  fold_neighbours<1>(lanes, [](float a, float b) { return a + b; });
  return lanes[0];
}

// Adds what a batch amounts to. False, and nothing added, where float32 may have lost what little error there is:
// values that vanish beside others of their batch while those are (nearly) exact.
template <std::size_t kBlocks>
[[gnu::always_inline]] inline bool add_batch(const ElementRounding& f, const Batch<kBlocks>& b, LaneSums& lanes,
                                             std::size_t blocks, std::size_t block_elements, QuantSums& sums) {
  alignas(64) float crest[kBlocks], x2[kBlocks];
  std::int32_t clipped_blocks = 0, nonzero_blocks = 0, top_amax = 0, lowest_code = 254;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const float amax = float_of(b.amax_bits[i]) * b.inverse[i];
    crest[i] = amax > 0 ? amax / std::sqrt(b.x2[i] / static_cast<float>(block_elements)) : 0.0f;
    x2[i] = b.x2[i] * b.weight[i] * b.weight[i];
    clipped_blocks += amax > f.max;
    nonzero_blocks += amax > 0;
    top_amax = std::max(top_amax, b.amax_bits[i]);
    lowest_code = std::min(lowest_code, amax > 0 ? b.code[i] : 254);
  }
  const double signal = tree_sum(x2), noise = tree_sum(lanes.err2), decoded = tree_sum(lanes.q2);
  const std::uint64_t elements = blocks * block_elements, zero_in = total(lanes.zero_in);
  const std::uint64_t underflow = total(lanes.zero_out) - zero_in;
  if (noise < signal * 0x1p-60 && (underflow || b.top_code - lowest_code > 30)) return false;

  const double unit = std::bit_cast<double>(static_cast<std::int64_t>(b.top_code - 127 + 1023) << 52);
  const double unit2 = unit * unit;
  sums.x2 += signal * unit2;
  sums.q2 += decoded * unit2;
  sums.err2 += noise * unit2;
  sums.xq += (signal + decoded - noise) / 2 * unit2;  // (x - q)^2 = x^2 - 2 x q + q^2, and x q is never negative
  sums.elements += elements;
  sums.nonzero += elements - zero_in;
  sums.underflow += underflow;
  sums.clipped += total(lanes.clipped);
  sums.crest += tree_sum(crest);
  sums.crest_blocks += static_cast<std::uint64_t>(nonzero_blocks);
  sums.clipped_blocks += static_cast<std::uint64_t>(clipped_blocks);
  sums.amax = std::max(sums.amax, float_of(top_amax));
  sums.blocks += blocks;
  for (std::size_t i = 0; i < blocks; ++i) ++sums.e8m0_blocks[static_cast<std::size_t>(b.code[i])];
  return true;
}

// INT8 has no -0.
[[gnu::always_inline]] inline void drop_zero_signs(float* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] += 0.0f;
}

// Rows -------------------------------------------------------------------------------------------------------------

[[gnu::always_inline]] inline void find_row_amax(const RowBlocks& in, std::size_t block, Batch<kRowBatch>& b) {
  alignas(64) std::int32_t top[kRowBatch * kLanes];
  for (std::size_t j = 0; j < in.count; ++j) {
    const float* __restrict v = in.x[j];
#pragma GCC ivdep
    for (std::size_t l = 0; l < kLanes; ++l) top[j * kLanes + l] = bits_of(v[l]) & kMagnitudeMask;
    for (std::size_t i = kLanes; i < block; i += kLanes)
#pragma GCC ivdep
      for (std::size_t l = 0; l < kLanes; ++l)
        top[j * kLanes + l] = std::max(top[j * kLanes + l], bits_of(v[i + l]) & kMagnitudeMask);
  }
  for (std::size_t i = in.count * kLanes; i < kRowBatch * kLanes; ++i) top[i] = 0;
  fold_neighbours<kRowBatch>(top, [](std::int32_t p, std::int32_t q) { return p > q ? p : q; });
  for (std::size_t j = 0; j < kRowBatch; ++j) b.amax_bits[j] = top[j];
}

template <bool kStatistics>
[[gnu::always_inline]] inline bool row_batch(const BlockFormat& format, const RowBlocks& in, std::size_t block,
                                             QuantSums* sums) {
  const ElementRounding f = rounding_of(format.element);
  Batch<kRowBatch> b;
  find_row_amax(in, block, b);
  if (!find_scales(arithmetic_of(format), b)) return false;
  LaneSums lanes;
  alignas(64) float x2[kRowBatch * kLanes] = {};
  for (std::size_t j = 0; j < in.count; ++j) {
    const float inverse = b.inverse[j], scale = b.scale[j], weight = b.weight[j];
    const float* __restrict x = in.x[j];
    float* __restrict out = in.out[j];
    alignas(64) float block_x2[kLanes] = {};
    for (std::size_t i = 0; i < block; i += kLanes) {
#pragma GCC ivdep
      for (std::size_t l = 0; l < kLanes; ++l) {
        const std::int32_t bits = bits_of(x[i + l]);
        const auto [y, r] = round_scaled(f, bits, inverse);
        out[i + l] = with_sign(r * scale, bits);
        if constexpr (kStatistics) {
          const float q = r * weight, error = (y - r) * weight;
          block_x2[l] += y * y;
          lanes.q2[l] += q * q;
          lanes.err2[l] += error * error;
          lanes.zero_in[l] += (bits & kMagnitudeMask) == 0;
          lanes.zero_out[l] += r == 0;
          lanes.clipped[l] += y > f.max;
        }
      }
    }
#pragma GCC ivdep
    for (std::size_t l = 0; l < kLanes; ++l) x2[j * kLanes + l] = block_x2[l];
    if (!f.sign_bit) drop_zero_signs(out, block);
  }
  if constexpr (kStatistics) {
    fold_neighbours<kRowBatch>(x2, [](float p, float q) { return p + q; });
    for (std::size_t j = 0; j < kRowBatch; ++j) b.x2[j] = x2[j];
    return add_batch(f, b, lanes, in.count, block, *sums);
  }
  return true;
}

MOESCOPE_SIMD bool row_batch_plain(const BlockFormat& format, const RowBlocks& in) {
  if (format.block == 32) return row_batch<false>(format, in, 32, nullptr);  // unrolled
  return row_batch<false>(format, in, static_cast<std::size_t>(format.block), nullptr);
}

MOESCOPE_SIMD bool row_batch_with_sums(const BlockFormat& format, const RowBlocks& in, QuantSums* sums) {
  if (format.block == 32) return row_batch<true>(format, in, 32, sums);  // unrolled
  return row_batch<true>(format, in, static_cast<std::size_t>(format.block), sums);
}

// Columns ----------------------------------------------------------------------------------------------------------

template <bool kStatistics>
[[gnu::always_inline]] inline bool column_batch(const BlockFormat& format, const MatrixView& in, float* out,
                                                std::size_t out_stride, QuantSums* sums) {
  const ElementRounding f = rounding_of(format.element);
  Batch<kColumnBatch> b;
  for (std::size_t c = 0; c < kColumnBatch; ++c) b.amax_bits[c] = 0, b.x2[c] = 0;
  for (std::size_t r = 0; r < in.rows; ++r) {
    const float* __restrict x = in.data + r * in.stride;
    for (std::size_t c = 0; c < in.cols; ++c) b.amax_bits[c] = std::max(b.amax_bits[c], bits_of(x[c]) & kMagnitudeMask);
  }
  if (!find_scales(arithmetic_of(format), b)) return false;
  LaneSums lanes;
  for (std::size_t r = 0; r < in.rows; ++r) {
    const float* __restrict x_row = in.data + r * in.stride;
    float* __restrict out_row = out + r * out_stride;
    for (std::size_t c = 0; c < in.cols; c += kLanes) {
      // The rows of a panel are far apart; no hardware prefetcher brings the next batch.
      __builtin_prefetch(x_row + c + kColumnBatch, 0, 2);
      __builtin_prefetch(out_row + c + kColumnBatch, 1, 2);
#pragma GCC ivdep
      for (std::size_t l = 0; l < kLanes; ++l) {
        const std::int32_t bits = bits_of(x_row[c + l]);
        const auto [y, rounded] = round_scaled(f, bits, b.inverse[c + l]);
        out_row[c + l] = with_sign(rounded * b.scale[c + l], bits);
        if constexpr (kStatistics) {
          const float q = rounded * b.weight[c + l], error = (y - rounded) * b.weight[c + l];
          b.x2[c + l] += y * y;
          lanes.q2[l] += q * q;
          lanes.err2[l] += error * error;
          lanes.zero_in[l] += (bits & kMagnitudeMask) == 0;
          lanes.zero_out[l] += rounded == 0;
          lanes.clipped[l] += y > f.max;
        }
      }
    }
    if (!f.sign_bit) drop_zero_signs(out_row, in.cols);
  }
  if constexpr (kStatistics) return add_batch(f, b, lanes, in.cols, in.rows, *sums);
  return true;
}

MOESCOPE_SIMD bool column_batch_plain(const BlockFormat& format, const MatrixView& in, float* out,
                                      std::size_t out_stride) {
  return column_batch<false>(format, in, out, out_stride, nullptr);
}

MOESCOPE_SIMD bool column_batch_with_sums(const BlockFormat& format, const MatrixView& in, float* out,
                                          std::size_t out_stride, QuantSums* sums) {
  return column_batch<true>(format, in, out, out_stride, sums);
}

}  // namespace

bool quantize_row_batch(const BlockFormat& format, const RowBlocks& blocks, QuantSums* sums) {
  return sums ? row_batch_with_sums(format, blocks, sums) : row_batch_plain(format, blocks);
}

bool quantize_column_batch(const BlockFormat& format, const MatrixView& in, float* out, std::size_t out_stride,
                           QuantSums* sums) {
  return sums ? column_batch_with_sums(format, in, out, out_stride, sums)
              : column_batch_plain(format, in, out, out_stride);
}

}  // namespace moescope
