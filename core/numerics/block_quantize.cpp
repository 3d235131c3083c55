#include "core/numerics/block_quantize.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <vector>

#include "core/numerics/block_kernels.h"
#include "core/numerics/float_rounding.h"

namespace moescope {
namespace {

constexpr const char* kRuleNames[] = {"floor", "rceil", "even", "ceil"};
constexpr std::uint32_t kInfinityBits = 0x7F800000;

// One element after scaling: sign kept, magnitude rounded.
float round_element(const ElementRounding& f, float y) {
  const float magnitude = round_magnitude(f, std::fabs(y));
  return f.sign_bit || magnitude != 0 ? std::copysign(magnitude, y) : 0.0f;
}

// 2^(127 - code); a float32 subnormal at code 254.
float inverse_scale(std::uint8_t code) {
  return decode_e8m0(static_cast<std::uint8_t>(254 - code));
}

float block_amax(const float* x, std::size_t step, std::size_t n) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < n; ++i) bits = std::max(bits, std::bit_cast<std::uint32_t>(x[i * step]) & 0x7FFFFFFF);
  return std::bit_cast<float>(bits);  // NaN sorts above infinity, infinity above all numbers
}

void quantize_block(const BlockFormat& format, const ElementRounding& f, const float* x, std::size_t step,
                    std::size_t n, float* out, std::size_t out_step, QuantSums* sums) {
  const float amax = block_amax(x, step, n);
  const std::uint8_t code = scale_code(format.rule, format.element, amax);
  if (sums) {
    ++sums->blocks;
    ++sums->e8m0_blocks[code];
    sums->elements += n;
    for (std::size_t i = 0; i < n; ++i) {
      const float magnitude = std::fabs(x[i * step]);
      sums->nonzero += magnitude != 0;
      if (magnitude <= std::numeric_limits<float>::max()) sums->amax = std::max(sums->amax, magnitude);
    }
  }
  if (code == 255) {
    for (std::size_t i = 0; i < n; ++i) out[i * out_step] = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  const float inverse = inverse_scale(code), scale = decode_e8m0(code);
  double x2 = 0;
  bool clips = false;
  for (std::size_t i = 0; i < n; ++i) {
    const float v = x[i * step], y = v * inverse;
    const float q = round_element(f, y) * scale;
    out[i * out_step] = q;
    if (!sums) continue;
    const double error = static_cast<double>(v) - q;
    x2 += static_cast<double>(v) * v;
    sums->q2 += static_cast<double>(q) * q;
    sums->xq += static_cast<double>(v) * q;
    sums->err2 += error * error;
    sums->underflow += v != 0 && q == 0;
    sums->clipped += std::fabs(y) > f.max;
    clips |= std::fabs(y) > f.max;
  }
  if (!sums) return;
  sums->x2 += x2;
  sums->clipped_blocks += clips;
  if (amax > 0) {
    sums->crest += amax / std::sqrt(x2 / static_cast<double>(n));
    ++sums->crest_blocks;
  }
}

MOESCOPE_SIMD void encode_block(const ElementRounding& rounding, const float* __restrict x, std::size_t n,
                                float inverse, std::uint8_t* __restrict codes) {
  const ElementRounding f = rounding;
  for (std::size_t i = 0; i < n; ++i) codes[i] = encode_number(f, x[i] * inverse);
}

void flush_row_batch(const BlockFormat& format, const ElementRounding& f, RowBlocks& batch, QuantSums* sums) {
  const std::size_t block = static_cast<std::size_t>(format.block);
  if (batch.count && !quantize_row_batch(format, batch, sums))
    for (std::size_t j = 0; j < batch.count; ++j)
      quantize_block(format, f, batch.x[j], 1, block, batch.out[j], 1, sums);
  batch.count = 0;
}

void quantize_along_rows(const BlockFormat& format, MatrixView in, float* out, std::size_t out_stride,
                         QuantSums* sums) {
  const ElementRounding f = rounding_of(format.element);
  const std::size_t block = static_cast<std::size_t>(format.block);
  const std::size_t batched = block % kLanes == 0 ? in.cols / block * block : 0;
  RowBlocks batch;
  for (std::size_t r = 0; r < in.rows; ++r) {
    const float* x = in.data + r * in.stride;
    float* q = out + r * out_stride;
    for (std::size_t c = 0; c < batched; c += block) {
      batch.x[batch.count] = x + c;
      batch.out[batch.count] = q + c;
      if (++batch.count == kRowBatch) flush_row_batch(format, f, batch, sums);
    }
    for (std::size_t c = batched; c < in.cols; c += block)
      quantize_block(format, f, x + c, 1, std::min(block, in.cols - c), q + c, 1, sums);
  }
  flush_row_batch(format, f, batch, sums);
}

// One row of blocks that reach down `in.rows` rows.
void quantize_panel(const BlockFormat& format, const ElementRounding& f, MatrixView in, float* out,
                    std::size_t out_stride, QuantSums* sums) {
  for (std::size_t c = 0; c < in.cols; c += kColumnBatch) {
    const std::size_t cols = std::min(kColumnBatch, in.cols - c);
    std::size_t batched = cols / kLanes * kLanes;
    const MatrixView batch{in.data + c, in.rows, batched, in.stride};
    if (batched && !quantize_column_batch(format, batch, out + c, out_stride, sums)) batched = 0;
    for (std::size_t i = c + batched; i < c + cols; ++i)
      quantize_block(format, f, in.data + i, in.stride, in.rows, out + i, out_stride, sums);
  }
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

}  // namespace

std::optional<ScaleRule> scale_rule_named(std::string_view name) {
  for (int i = 0; i < 4; ++i)
    if (name == kRuleNames[i]) return static_cast<ScaleRule>(i);
  return std::nullopt;
}

const char* scale_rule_name(ScaleRule rule) {
  return kRuleNames[static_cast<int>(rule)];
}

std::uint8_t scale_code(ScaleRule rule, ElementFormat format, float amax) {
  const FormatTraits& f = traits(format);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(amax) & 0x7FFFFFFF;
  if (bits >= kInfinityBits) return 255;
  const auto clamped = [](int code) { return static_cast<std::uint8_t>(std::clamp(code, 0, 254)); };
  const int exponent = static_cast<int>(bits >> 23);
  switch (rule) {
    case ScaleRule::floor:
      return clamped(exponent - f.emax);
    case ScaleRule::ceil:
      return clamped(exponent + ((bits & 0x7FFFFF) != 0) - f.emax);
    case ScaleRule::even: {
      const int carried = static_cast<int>((bits + (1u << (22 - f.mantissa_bits))) >> 23);
      return carried == 255 ? 255 : clamped(carried - f.emax);
    }
    case ScaleRule::rceil: {
      const float reciprocal = 1.0f / f.max;
      return encode_e8m0_up(std::bit_cast<float>(bits) * reciprocal, false);
    }
  }
  return 255;
}

void QuantSums::add(const QuantSums& other) {
  for (int i = 0; i < 256; ++i) e8m0_blocks[i] += other.e8m0_blocks[i];
  amax = std::max(amax, other.amax);
  x2 += other.x2, q2 += other.q2, xq += other.xq, err2 += other.err2;
  elements += other.elements, nonzero += other.nonzero;
  underflow += other.underflow, clipped += other.clipped;
  blocks += other.blocks, clipped_blocks += other.clipped_blocks;
  crest += other.crest, crest_blocks += other.crest_blocks;
}

double QuantSums::sqnr_db() const {
  return err2 == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(x2 / err2);
}
double QuantSums::relative_l2() const {
  return err2 == 0 ? 0.0 : std::sqrt(err2 / x2);
}
double QuantSums::cosine() const {
  return xq / (std::sqrt(x2) * std::sqrt(q2));
}
double QuantSums::underflow_share() const {
  return share(underflow, nonzero);
}
double QuantSums::clipped_share() const {
  return share(clipped, elements);
}
double QuantSums::clipped_blocks_share() const {
  return share(clipped_blocks, blocks);
}
double QuantSums::mean_crest() const {
  return crest_blocks ? crest / static_cast<double>(crest_blocks) : 0.0;
}

void quantize_dequantize(const BlockFormat& format, MatrixView in, BlockAxis axis, float* out, std::size_t out_stride,
                         QuantSums* sums) {
  if (in.rows == 0 || in.cols == 0) return;
  assert(format.block > 0 && in.data != out);
  if (axis == BlockAxis::row) return quantize_along_rows(format, in, out, out_stride, sums);
  const ElementRounding f = rounding_of(format.element);
  const std::size_t block = static_cast<std::size_t>(format.block);
  for (std::size_t r = 0; r < in.rows; r += block)
    quantize_panel(format, f, {in.data + r * in.stride, std::min(block, in.rows - r), in.cols, in.stride},
                   out + r * out_stride, out_stride, sums);
}

void quantize_rows(const BlockFormat& format, MatrixView in, std::uint8_t* codes, std::uint8_t* scales) {
  assert(format.block > 0);
  const ElementRounding f = rounding_of(format.element);
  const std::uint8_t nan_code = encode(format.element, std::numeric_limits<float>::quiet_NaN());
  const std::size_t block = static_cast<std::size_t>(format.block);
  for (std::size_t r = 0; r < in.rows; ++r) {
    for (std::size_t c = 0; c < in.cols; c += block) {
      const float* x = in.data + r * in.stride + c;
      const std::size_t n = std::min(block, in.cols - c);
      const std::uint8_t code = scale_code(format.rule, format.element, block_amax(x, 1, n));
      if (code == 255)
        std::fill_n(codes, n, nan_code);
      else
        encode_block(f, x, n, inverse_scale(code), codes);
      *scales++ = code;
      codes += n;
    }
  }
}

void dequantize_rows(const BlockFormat& format, const std::uint8_t* codes, const std::uint8_t* scales, std::size_t rows,
                     std::size_t cols, float* out) {
  const std::size_t block = static_cast<std::size_t>(format.block);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < cols; c += block) {
      const float scale = decode_e8m0(*scales++);
      const std::size_t n = std::min(block, cols - c);
      for (std::size_t i = 0; i < n; ++i) *out++ = decode(format.element, *codes++) * scale;
    }
  }
}

}  // namespace moescope
