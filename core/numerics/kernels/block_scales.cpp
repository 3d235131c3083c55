#include "core/numerics/kernels/block_scales.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/numerics/kernels/block_scales.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "core/numerics/kernels/lanes.h"

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {
namespace {

// Largest magnitudes ------------------------------------------------------------------------------------------------

std::int32_t row_amax(const float* x, Index count, std::int32_t known) {
  Ints top[4] = {splat(known), splat(known), splat(known), splat(known)};
  Index i = 0;
  for (; i + 4 * kSixteen <= count; i += 4 * kSixteen)
    for (Index k = 0; k < 4; ++k) top[k] = larger(top[k], magnitude_bits(load(x + i + k * kSixteen)));
  for (; i < count; i += kSixteen) top[0] = larger(top[0], magnitude_bits(load_first(x + i, count - i)));
  return max_of(larger(larger(top[0], top[1]), larger(top[2], top[3])));
}

// `kVectors`: number of vectors of sixteen values in each whole block; 0: any number of values.
template <Index kVectors>
void row_blocks_amax(const Tile& t, Index width, std::int32_t* amax_bits) {
  alignas(64) std::int32_t tops[kSixteen * kSixteen];
  Index waiting = 0;
  const auto keep = [&](Ints top) HWY_ATTR {
    store(tops + waiting * kSixteen, top);
    if (++waiting < kSixteen) return;
    store(amax_bits, joined_rows(tops, Largest()));
    amax_bits += kSixteen;
    waiting = 0;
  };
  for (Index r = 0; r < t.in.rows; ++r) {
    const float* x = t.in.row(r);
    Index c = 0;
    for (; kVectors > 0 && c + width <= t.in.cols; c += width) {
      Ints top = magnitude_bits(load(x + c));
      for (Index k = 1; k < kVectors; ++k) top = larger(top, magnitude_bits(load(x + c + k * kSixteen)));
      keep(top);
    }
    for (; c < t.in.cols; c += width) {
      const Index end = std::min(c + width, t.in.cols);
      Ints top = zero<std::int32_t>();
      for (Index i = c; i < end; i += kSixteen) top = larger(top, magnitude_bits(load_first(x + i, end - i)));
      keep(top);
    }
  }
  for (Index k = 0; k < waiting; ++k) *amax_bits++ = max_of(load(tops + k * kSixteen));
}
void row_amax_of_width(const Tile& t, Index width, std::int32_t* amax_bits) {
  if (width == kSixteen) return row_blocks_amax<1>(t, width, amax_bits);
  if (width == 2 * kSixteen) return row_blocks_amax<2>(t, width, amax_bits);
  row_blocks_amax<0>(t, width, amax_bits);
}

// Takes four times sixteen columns side by side, as long as that many are left.
void columns_amax(const Tile& t, std::int32_t* amax_bits) {
  Index c = 0;
  for (; c + 4 * kSixteen <= t.in.cols; c += 4 * kSixteen) {
    Ints top[4];
    for (auto& part : top) part = zero<std::int32_t>();
    for (Index r = 0; r < t.in.rows; ++r)
      for (Index k = 0; k < 4; ++k) top[k] = larger(top[k], magnitude_bits(load(t.in.row(r) + c + k * kSixteen)));
    for (Index k = 0; k < 4; ++k) store(amax_bits + c + k * kSixteen, top[k]);
  }
  for (; c < t.in.cols; c += kSixteen) {
    Ints top = zero<std::int32_t>();
    for (Index r = 0; r < t.in.rows; ++r) top = larger(top, magnitude_bits(load_first(t.in.row(r) + c, t.in.cols - c)));
    store_first(amax_bits + c, top, t.in.cols - c);
  }
}

// Scales ------------------------------------------------------------------------------------------------------------

constexpr std::int32_t kInfinityBits = 0x7F800000;
constexpr std::int32_t kSmallestE8m0Bits = 0x00400000;  // 2^-127
constexpr std::int32_t kNanBits = 0x7FC00000;
constexpr std::int32_t kNoCode = 255;  // for blocks whose scale is not finite

HWY_INLINE std::int32_t bits_of(float v) {
  return std::bit_cast<std::int32_t>(v);
}
HWY_INLINE float float_of(std::int32_t bits) {
  return std::bit_cast<float>(bits);
}

void mx_scales(const Scaling& s, Index count, BlockBatch& b) {
  const E8m0Rule rule = e8m0_rule(s.format.rule, s.format.element);
  for (Index i = 0; i < count; ++i) {
    const std::int32_t amax = b.amax_bits[i], code = e8m0_code(rule, amax);
    // A block of zeros is scaled by 1 instead of by a subnormal, which is slow on some processors.
    const std::int32_t decode_of_zero_code = amax == 0 ? bits_of(1.0f) : kSmallestE8m0Bits;
    const std::int32_t decode = code == 0 ? decode_of_zero_code : code << 23;
    // The encoding factor stays finite for NaN (255) as well: the scale alone makes q of such a block NaN.
    const std::int32_t encode = code >= 254 ? kSmallestE8m0Bits : (254 - code) << 23;
    b.code[i] = code;
    b.decode[i] = b.bf16_decode[i] = float_of(code == 255 ? kNanBits : decode);
    b.encode[i] = float_of(encode);
  }
}

// Scales that are not finite become NaN.
void fp8_scales(const Scaling& s, Index count, BlockBatch& b) {
  const double max = s.rounding.max;
  for (Index i = 0; i < count; ++i) {
    const std::int32_t bits = b.amax_bits[i];
    const float encode = fp8_encoding_scale(max, s.format.power_of_two_scale, float_of(bits)), decode = 1.0f / encode;
    const std::int32_t code = bits_of(decode) >> 23 & 255;
    const bool finite = (bits < kInfinityBits) & (code < 255);
    b.code[i] = finite ? code : 255;
    b.decode[i] = float_of(finite ? bits_of(decode) : kNanBits);
    b.bf16_decode[i] = float_of(finite ? bits_of(1.0f) : kNanBits);
    b.encode[i] = encode;
  }
}

// See Scaling::Ratio.
template <bool kCorrected>
HWY_INLINE Floats ratio(Floats a, Floats b, Floats reciprocal) {
  return kCorrected ? quotient(a, b, reciprocal) : a / b;
}

HWY_INLINE Floats nan_without_code(Ints code, Floats scale) {
  return bits_as<float>(if_less(code, splat(kNoCode), bits_as<std::int32_t>(scale), splat(kNanBits)));
}

// Computes nvfp4_block_scale() for sixteen blocks at a time, and the numbers that follow from it.
template <bool kCorrected>
void nvfp4_scales(const Scaling& s, Index count, BlockBatch& b) {
  const Floats tensor = splat(s.tensor_scale), per_tensor = splat(1.0f / s.tensor_scale), one = splat(1.0f);
  const Ints infinity = splat(kInfinityBits);
  for (Index i = 0; i < count; i += kSixteen) {
    const Ints bits = load(b.amax_bits.data() + i);
    const Floats amax = bits_as<float>(bits), sixth = ratio<kCorrected>(amax, splat(6.0f), splat(1.0f / 6.0f));
    const Floats unrounded = ratio<kCorrected>(sixth, tensor, per_tensor);
    const Floats clamped = smaller(larger(unrounded, splat(kNvfp4MinScale)), splat(kNvfp4MaxScale));
    const Floats to_last = bits_as<float>((bits_as<std::int32_t>(clamped) & infinity) + splat(kNvfp4ToLast));
    const Floats block_scale = (clamped + to_last) - to_last, decode = tensor * block_scale, encode = one / decode;
    const Words exponent = shifted_right<23>(bits_as<std::uint32_t>(decode)) & splat(255u);
    const Ints code = if_less(bits, infinity, bits_as<std::int32_t>(exponent), splat(kNoCode));
    store(b.code.data() + i, code);
    store(b.decode.data() + i, nan_without_code(code, decode));
    store(b.bf16_decode.data() + i, nan_without_code(code, block_scale));
    store(b.encode.data() + i, encode);
    store(b.scaled_amax.data() + i, ratio<kCorrected>(amax, decode, encode));
  }
}

// Scales by the other rules of NVFP4, which multiply values by the encoding factor.
template <Nvfp4Rule kRule, bool kFourOverSix = false>
void nvfp4_multiplied_scales(const Scaling& s, Index count, BlockBatch& b) {
  const Nvfp4TensorScale tensor = s.nvfp4;
  for (Index i = 0; i < count; ++i) {
    const std::int32_t bits = b.amax_bits[i];
    const Nvfp4BlockScale block =
        nvfp4_block<kRule, kFourOverSix>(tensor, float_of(bits), kFourOverSix && b.four[i] != 0);
    const std::int32_t code = bits_of(block.decode) >> 23 & 255;
    const bool finite = (bits < kInfinityBits) & (code < kNoCode);
    b.code[i] = finite ? code : kNoCode;
    b.decode[i] = float_of(finite ? bits_of(block.decode) : kNanBits);
    b.bf16_decode[i] = float_of(finite ? bits_of(block.s) : kNanBits);
    b.encode[i] = block.encode;
  }
}

void nvfp4_scales_of_rule(const Scaling& s, Index count, BlockBatch& b) {
  using enum Nvfp4Rule;
  if (s.format.nvfp4.rule == torchao) return nvfp4_multiplied_scales<torchao>(s, count, b);
  if (s.format.nvfp4.rule == torchao_one_level) return nvfp4_multiplied_scales<torchao_one_level>(s, count, b);
  if (s.format.nvfp4.four_over_six == FourOverSix::off) return nvfp4_multiplied_scales<transformer_engine>(s, count, b);
  for (Index i = b.count; i < count; ++i) b.four[i] = 0;
  nvfp4_multiplied_scales<transformer_engine, true>(s, count, b);
}

void multiply_amax(Index count, BlockBatch& b) {
  for (Index i = 0; i < count; ++i) b.scaled_amax[i] = float_of(b.amax_bits[i]) * b.encode[i];
}

void scales(const Scaling& s, BlockBatch& b) {
  const Index padded = (b.count + kSixteen - 1) / kSixteen * kSixteen;
  for (Index i = b.count; i < padded; ++i) b.amax_bits[i] = 0;
  if (s.ratio == Scaling::Ratio::corrected) {
    nvfp4_scales<true>(s, padded, b);
  } else if (s.ratio == Scaling::Ratio::divided) {
    nvfp4_scales<false>(s, padded, b);
  } else {
    if (s.format.scheme == QuantScheme::fp8)
      fp8_scales(s, padded, b);
    else if (s.format.scheme == QuantScheme::nvfp4)
      nvfp4_scales_of_rule(s, padded, b);
    else
      mx_scales(s, padded, b);
    multiply_amax(padded, b);
  }

  const Ints none = zero<std::int32_t>();
  Ints top_amax_bits = none, top_code = none, least_code = splat(255), clipped = none, nonzero = none, vanishing = none;
  for (Index i = 0; i < padded; i += kSixteen) {
    const Ints bits = load(b.amax_bits.data() + i), code = load(b.code.data() + i);
    const Floats scaled = load(b.scaled_amax.data() + i), no = zero<float>(), one = bits_as<float>(splat(1));
    clipped = clipped + bits_as<std::int32_t>(if_less(splat(s.clip_limit), scaled, one, no));
    nonzero = nonzero + if_equal(bits, none, none, splat(1));
    vanishing =
        vanishing | if_equal(bits, none, none, bits_as<std::int32_t>(if_less(scaled, splat(0x1p-40f), one, no)));
    top_amax_bits = larger(top_amax_bits, bits);
    top_code = larger(top_code, if_equal(bits, none, none, code));
    least_code = smaller(least_code, if_equal(bits, none, splat(255), code));
  }
  b.top_amax_bits = max_of(top_amax_bits);
  b.top_code = max_of(top_code);
  b.least_code = min_of(least_code);
  b.clipped = sum_of(clipped);
  b.nonzero = sum_of(nonzero);
  b.vanishing = max_of(vanishing) > 0;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace moescope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moescope {

HWY_EXPORT(row_amax);
HWY_EXPORT(row_amax_of_width);
HWY_EXPORT(columns_amax);
HWY_EXPORT(scales);

Scaling scaling_of(const OperandFormat& format, float tensor_amax) {
  Scaling s{.format = format, .rounding = rounding_of(format.element)};
  assert(format.scheme != QuantScheme::nvfp4 || format.element == ElementFormat::e2m1);
  // The rounding of an FP32 scale, or of its reciprocal, lifts amax above max by an ulp or two, which does not count as
  // clipping.
  const bool reciprocal = format.scheme == QuantScheme::nvfp4 && format.nvfp4.rule != Nvfp4Rule::divided;
  s.clip_limit = format.scheme == QuantScheme::fp8 || reciprocal ? s.rounding.max * (1 + 0x1p-20f) : s.rounding.max;
  if (format.scheme == QuantScheme::nvfp4) {
    if (format.nvfp4.rule == Nvfp4Rule::divided) {
      s.tensor_scale = nvfp4_tensor_scale(tensor_amax);
      s.ratio = s.tensor_scale > 0x1p-60f ? Scaling::Ratio::corrected : Scaling::Ratio::divided;
    } else {
      s.nvfp4 = nvfp4_tensor(format.nvfp4, tensor_amax);
      if (std::isinf(s.nvfp4.encode)) s.ratio = Scaling::Ratio::limited;  // torchao's rule, amax below about 2^-116
    }
  }
  // BF16's smallest normal number is 2^-126; matrix units treat smaller ones as zero.
  if (format.scheme == QuantScheme::mx) s.least_bf16_code = 1 - std::ilogb(traits(format.element).min_subnormal);
  return s;
}

void find_scales(const Scaling& scaling, BlockBatch& batch) {
  HWY_DYNAMIC_DISPATCH(scales)(scaling, batch);
}

float matrix_amax(ConstMatrix<float> matrix) {
  std::int32_t top = 0;
  for (Index r = 0; r < matrix.rows; ++r) top = HWY_DYNAMIC_DISPATCH(row_amax)(matrix.row(r), matrix.cols, top);
  return std::bit_cast<float>(top);
}

void find_row_amax(const Tile& tile, Index width, std::int32_t* amax_bits) {
  HWY_DYNAMIC_DISPATCH(row_amax_of_width)(tile, width, amax_bits);
}

void find_column_amax(const Tile& tile, std::int32_t* amax_bits) {
  HWY_DYNAMIC_DISPATCH(columns_amax)(tile, amax_bits);
}

}  // namespace moescope
#endif
