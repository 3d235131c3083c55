#include "core/numerics/scaling.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "core/numerics/kernels/element_lanes.h"
#include "core/numerics/kernels/nvfp4_scales.h"
#include "core/numerics/kernels/simd.h"
#include "core/numerics/scale_rules.h"

namespace moescope {
namespace {

constexpr std::int32_t kSmallestE8m0Bits = 0x00400000;  // 2^-127
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

MOESCOPE_INLINE std::int32_t bits_of(float v) {
  return std::bit_cast<std::int32_t>(v);
}
MOESCOPE_INLINE float float_of(std::int32_t bits) {
  return std::bit_cast<float>(bits);
}

MOESCOPE_SIMD void find_mx_scales(const Scaling& s, std::size_t count, Scales& scales) {
  const E8m0Rule rule = e8m0_rule(s.format.rule, s.format.element);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t amax = scales.amax_bits[i];
    const std::int32_t code = e8m0_code(rule, amax);
    // A block of zeros is scaled by 1 instead of by a subnormal, which some processors are slow at.
    const std::int32_t least = amax == 0 ? bits_of(1.0f) : kSmallestE8m0Bits;
    const std::int32_t decode = code == 0 ? least : code << 23;
    const std::int32_t encode = code >= 254 ? kSmallestE8m0Bits : (254 - code) << 23;  // finite under 255, too
    scales.code[i] = code;
    scales.decode[i] = float_of(code < 255 ? decode : bits_of(kNan));
    scales.encode[i] = float_of(encode);
  }
}

// Codes of scales that are no powers of two; those that are not finite become NaN.
MOESCOPE_INLINE void set_float_scale(std::int32_t amax, float encode, float decode, Scales& scales, std::size_t i) {
  const std::int32_t code = bits_of(decode) >> 23 & 255;
  const bool finite = (amax < kInfinityBits) & (code < 255);
  scales.code[i] = finite ? code : 255;
  scales.decode[i] = float_of(finite ? bits_of(decode) : bits_of(kNan));
  scales.encode[i] = encode;
}

MOESCOPE_SIMD void find_fp8_scales(const Scaling& s, std::size_t count, Scales& scales) {
  const double max = s.rounding.max;
  const bool power_of_two = s.format.power_of_two_scale;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t bits = scales.amax_bits[i];
    const float encode = fp8_encoding_scale(max, power_of_two, float_of(bits));
    set_float_scale(bits, encode, 1.0f / encode, scales, i);
  }
}

MOESCOPE_SIMD void find_nvfp4_scales(const Scaling& s, std::size_t count, Scales& scales) {
  for (std::size_t i = 0; i < count; i += kLanes<float>) {
    const Ints amax = load(scales.amax_bits.data() + i);
    const Floats decode = nvfp4_decode((Floats)amax, s.tensor_scale);
    const Ints code = (Ints)decode >> 23 & 255, most = amax < kInfinityBits ? code : Ints{} + 255;
    store(scales.code.data() + i, most);
    store(scales.decode.data() + i, most < 255 ? decode : splat(kNan));
    store(scales.encode.data() + i, 1.0f / decode);
  }
}

}  // namespace

Scaling scaling_of(const OperandFormat& format, float tensor_amax) {
  Scaling s{format, rounding_of(format.element), 0, 1};
  assert(format.scheme != QuantScheme::nvfp4 || format.element == ElementFormat::e2m1);
  // The rounding of an FP32 scale lifts amax above max by an ulp or two: that is not clipping.
  s.clip_limit = format.scheme == QuantScheme::fp8 ? s.rounding.max * (1 + 0x1p-20f) : s.rounding.max;
  if (format.scheme == QuantScheme::nvfp4) s.tensor_scale = nvfp4_tensor_scale(tensor_amax);
  return s;
}

void find_scales(const Scaling& s, std::size_t count, Scales& scales) {
  const std::size_t padded = (count + 15) / 16 * 16;
  for (std::size_t i = count; i < padded; ++i) scales.amax_bits[i] = 0;
  switch (s.format.scheme) {
    case QuantScheme::fp8:
      return find_fp8_scales(s, padded, scales);
    case QuantScheme::nvfp4:
      return find_nvfp4_scales(s, padded, scales);
    default:
      return find_mx_scales(s, padded, scales);
  }
}

}  // namespace moescope
