// The scales of every scheme: which values share a scale, and how it is computed from their largest magnitude (amax).
// All scales are defined here; the loops over many blocks inline these functions. quantize.h names the sources of the
// formulas.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "core/numerics/matrix.h"
#include "core/numerics/number_format.h"

namespace moescope {

// Numbers of values that share a scale, along and across the contracting dimension; kWhole: all.
struct ScaleBlock {
  static constexpr Index kWhole = std::numeric_limits<Index>::max();
  Index along = kWhole, across = kWhole;
};
// Returns the block of a format's scale. NVFP4's scale has two factors; the first belongs to this block, the second to
// the tensor.
constexpr ScaleBlock scale_block(const OperandFormat& format) {
  constexpr Index kSquare = 128;
  const Index block = block_size(format);
  if (format.scheme != QuantScheme::fp8)
    return {block, format.scheme == QuantScheme::nvfp4 && format.nvfp4.square ? block : 1};
  switch (format.granularity) {
    case ScaleGranularity::tensor:
      break;
    case ScaleGranularity::row:
      return {ScaleBlock::kWhole, 1};
    case ScaleGranularity::block_1x128:
      return {kSquare, 1};
    case ScaleGranularity::block_128x128:
      return {kSquare, kSquare};
  }
  return {};
}
// True if the scale, or one factor of it, belongs to the whole tensor.
constexpr bool has_tensor_scale(const OperandFormat& format) {
  return (format.scheme == QuantScheme::nvfp4 && format.nvfp4.rule != Nvfp4Rule::torchao_one_level) ||
         (format.scheme == QuantScheme::fp8 && format.granularity == ScaleGranularity::tensor);
}
// True if values outside of a block of block_size() influence its scale.
constexpr bool shares_scale(const OperandFormat& format) {
  const ScaleBlock block = scale_block(format);
  return has_tensor_scale(format) || block.along == ScaleBlock::kWhole || block.across > 1;
}

// Scale codes of MX. E and M are the exponent field and the mantissa field of amax in float32, emax and m the largest
// exponent and the number of mantissa bits of the format:
//   floor  clamp(E - emax, 0, 254)
//   ceil   clamp(E + (M != 0) - emax, 0, 254)
//   even   amax's bits + (1 << (22 - m)) first, then as floor; 255 if that overflows to infinity
//   rceil  smallest 2^k >= amax * float32(1 / max), k >= -127; 255 above 2^127
// All rules give 255 if amax is NaN or infinite. One formula without branches computes all four:
//   code = clamp(((bits(amax * factor) + carry) >> 23) - subtract, 0, 254), 255 from `overflow` on.
struct E8m0Rule {
  float factor;
  std::int32_t carry, carry_subnormal, subtract, overflow;
};

constexpr E8m0Rule e8m0_rule(ScaleRule rule, ElementFormat element) {
  const FormatTraits& f = traits(element);
  const std::int32_t half_unit = 1 << (22 - f.mantissa_bits);
  switch (rule) {
    case ScaleRule::floor:
      return {1.0f, 0, 0, f.emax, 255};
    case ScaleRule::ceil:  // only infinity overflows
      return {1.0f, 0x7FFFFF, 0x7FFFFF, f.emax, 256};
    case ScaleRule::even:
      return {1.0f, half_unit, half_unit, f.emax, 255};
    case ScaleRule::rceil:
      break;
  }
  return {1.0f / f.max, 0x7FFFFF, 0x3FFFFF, 0, 255};  // up to 2^-127 the code stays 0
}

// `amax_bits`: bits of a float32 without its sign.
[[gnu::always_inline]] inline std::int32_t e8m0_code(const E8m0Rule& rule, std::int32_t amax_bits) {
  constexpr std::int32_t kMinNormalBits = 0x00800000, kInfinity = 0x7F800000;
  const std::int32_t scaled = std::bit_cast<std::int32_t>(std::bit_cast<float>(amax_bits) * rule.factor);
  const std::int32_t carry = scaled < kMinNormalBits ? rule.carry_subnormal : rule.carry;
  const std::uint32_t carried = static_cast<std::uint32_t>(scaled) + carry;  // NaN may wrap
  const std::int32_t up = carried >> 23;
  const bool finite = (amax_bits < kInfinity) & (up < rule.overflow);
  const std::int32_t above = up - rule.subtract, held = above < 0 ? 0 : above, code = held > 254 ? 254 : held;
  return finite ? code : 255;
}

inline std::uint8_t scale_code(ScaleRule rule, ElementFormat element, float amax) {
  return static_cast<std::uint8_t>(e8m0_code(e8m0_rule(rule, element), std::bit_cast<std::int32_t>(amax) & 0x7FFFFFFF));
}

// Returns FP8's encoding scale e; the scale is 1 / e.
[[gnu::always_inline]] inline float fp8_encoding_scale(double element_max, bool power_of_two, float amax) {
  const float encode = static_cast<float>(element_max / std::max(amax, 1e-12f));
  return power_of_two ? std::bit_cast<float>(std::bit_cast<std::int32_t>(encode) & 0x7F800000) : encode;
}

// Scales of NVFP4 by Nvfp4Rule::divided: t from the tensor's amax, and the block's s, an E4M3 number. Because s is held
// between E4M3's smallest normal number and its largest, rounding it needs no handling of subnormals and saturation
// (float_rounding.h).
inline float nvfp4_tensor_scale(float tensor_amax) {
  return std::max(tensor_amax / (448.0f * 6.0f), 0x1p-120f);
}
inline constexpr float kNvfp4MinScale = 0x1p-6f, kNvfp4MaxScale = 448.0f;
inline constexpr std::int32_t kNvfp4ToLast = (23 - 3) << 23;
inline float nvfp4_block_scale(float amax, float tensor_scale) {
  const float held = std::clamp(amax / 6.0f / tensor_scale, kNvfp4MinScale, kNvfp4MaxScale);
  const float magic = std::bit_cast<float>((std::bit_cast<std::int32_t>(held) & 0x7F800000) + kNvfp4ToLast);
  return (held + magic) - magic;
}

// The other rules of NVFP4, in float32 and in this order of operations (c: scale_bound, a: amax of the tensor, b: amax
// of the block). E4M3() rounds to nearest, ties to even, with subnormal numbers, and saturates. Elements are
// cast_E2M1(x * encode). One unit of an element is worth s * a / (6 c) by TransformerEngine's rule and s * t by
// torchao's.
//   transformer_engine  e = min(6 c / a, max), 1 where that is 0;  d = 1 / e
//     alone             s = E4M3(b * (e * (1/6)))
//     4over6            s = E4M3(b / 6 * e), or for a largest value of 4  E4M3(b / 6 * e * 1.5)
//                       encode = min(1 / (s * d), max)
//   torchao             t = a / (6 * 448);  s = E4M3(clamp(b / 6 / t, 2^-6, 448));  encode = (1 / t) / s
//   torchao_one_level   s = E4M3(clamp(b / 6, 2^-6, 448));  encode = 1 / s;  t = 1
// Sources: TransformerEngine's pytorch/custom_recipes/reference_nvfp4.py at d0067d0d, which torchao's training
// reference equals; torchao's prototype/mx_formats/nvfp4_tensor.py at 36027d82d. A block whose s is 0 decodes to zeros,
// whatever its codes are. Here its codes are 0, so that they do not count as clipped. By torchao's rule, a tensor of
// zeros has t = 1.
struct Nvfp4TensorScale {
  float encode = 1, decode = 1;  // transformer_engine: e and d; torchao: 1 / t and t
  float base = 1;                // e * (1/6)
  float amax = 0, bound = 0;     // a and 6 c
  double unit = 1;               // a / (6 c), or t: value of one unit of element times s
};
inline Nvfp4TensorScale nvfp4_tensor(const Nvfp4Scaling& scaling, float amax) {
  constexpr float kMax = std::numeric_limits<float>::max();
  Nvfp4TensorScale t;
  t.amax = amax;
  t.bound = 6.0f * scaling.scale_bound;
  if (scaling.rule == Nvfp4Rule::transformer_engine) {
    t.encode = std::min(t.bound / amax, kMax);
    if (t.encode == 0) t.encode = 1;
    t.decode = 1 / t.encode;
    t.base = t.encode * (1.0f / 6.0f);
    t.unit = amax / static_cast<double>(t.bound);
  } else if (scaling.rule == Nvfp4Rule::torchao) {
    t.decode = amax == 0 ? 1 : amax / t.bound;
    t.encode = 1 / t.decode;
    t.unit = t.decode;
  }
  return t;
}

[[gnu::always_inline]] inline float e4m3_rounded(float scale) {
  const float held = scale < kNvfp4MaxScale ? scale : kNvfp4MaxScale;
  const std::int32_t exponent = std::bit_cast<std::int32_t>(held) & 0x7F800000;
  constexpr std::int32_t kMinScaleBits = std::bit_cast<std::int32_t>(kNvfp4MinScale);
  const float magic = std::bit_cast<float>((exponent < kMinScaleBits ? kMinScaleBits : exponent) + kNvfp4ToLast);
  return (held + magic) - magic;
}

struct Nvfp4BlockScale {
  float s, encode, decode;  // decode: s times Nvfp4TensorScale::unit, rounded once
};
// `four`: with 4over6, whether the largest value is scaled to 4.
template <Nvfp4Rule kRule, bool kFourOverSix = false>
[[gnu::always_inline]] inline Nvfp4BlockScale nvfp4_block(const Nvfp4TensorScale& t, float amax, bool four = false) {
  constexpr float kMax = std::numeric_limits<float>::max();
  Nvfp4BlockScale block;
  if constexpr (kRule == Nvfp4Rule::transformer_engine) {
    const float six = amax / 6.0f * t.encode;
    const float chosen = four ? six * 1.5f : six;
    block.s = e4m3_rounded(kFourOverSix ? chosen : amax * t.base);
    const float reciprocal = 1 / (block.s * t.decode);
    const float bounded = reciprocal < kMax ? reciprocal : kMax;
    block.encode = block.s == 0 ? 0 : bounded;
  } else {
    const float unrounded_scale = kRule == Nvfp4Rule::torchao ? amax / 6.0f / t.decode : amax / 6.0f;
    block.s = e4m3_rounded(unrounded_scale < kNvfp4MinScale ? kNvfp4MinScale : unrounded_scale);
    block.encode = t.encode / block.s;
  }
  block.decode = static_cast<float>(block.s * t.unit);
  return block;
}
Nvfp4BlockScale nvfp4_block_of(const Nvfp4Scaling& scaling, const Nvfp4TensorScale& t, float amax, bool four);

// The scale of one block and how it is stored.
struct BlockScale {
  float value = 0;            // NaN if the values that share it hold a NaN or an infinity
  std::uint8_t code = 0;      // E8M0 for MX, E4M3 for NVFP4, unused for FP8
  float tensor = 1;           // t for NVFP4
  float encode = 0;           // factor of the values; NVFP4's rule `divided` divides by `value` instead
  std::uint8_t exponent = 0;  // index in QuantSums::e8m0_blocks: floor(log2 scale) + 127, for MX the code; 255: NaN
};
// `amax` is the amax of the block, `shared_amax` the amax of all values that influence its scale: NVFP4's whole tensor,
// the values that share an FP8 scale, or the block alone if it has a scale of its own.
BlockScale block_scale(const OperandFormat& format, float amax, float shared_amax);

}  // namespace moescope
