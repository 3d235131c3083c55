#include "core/numerics/block_quantize.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

#include "core/numerics/kernels/float_rounding.h"
#include "core/numerics/scale_rules.h"

namespace moescope {
namespace {

// 2^(127 - code); a float32 subnormal at code 254.
float inverse_scale(std::uint8_t code) {
  return decode_e8m0(static_cast<std::uint8_t>(254 - code));
}

float block_amax(const float* x, Index n) {
  std::uint32_t bits = 0;
  for (Index i = 0; i < n; ++i) bits = std::max(bits, std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFF);
  return std::bit_cast<float>(bits);  // NaN orders above infinity, infinity above all numbers
}

void encode_block(const ElementRounding& rounding, const float* __restrict x, Index n, float inverse,
                  std::uint8_t* __restrict codes) {
  const ElementRounding f = rounding;
  for (Index i = 0; i < n; ++i) codes[i] = encode_number(f, x[i] * inverse);
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole ? part / static_cast<double>(whole) : 0.0;
}

}  // namespace

void QuantSums::add(const QuantSums& other) {
  for (int i = 0; i < 256; ++i) e8m0_blocks[i] += other.e8m0_blocks[i];
  amax = std::max(amax, other.amax);
  x2 += other.x2;
  q2 += other.q2;
  xq += other.xq;
  err2 += other.err2;
  elements += other.elements;
  nonzero += other.nonzero;
  underflow += other.underflow;
  clipped += other.clipped;
  blocks += other.blocks;
  clipped_blocks += other.clipped_blocks;
  crest += other.crest;
  crest_blocks += other.crest_blocks;
}

void QuantSums::count_as_one_block() {
  for (std::uint32_t& count : e8m0_blocks) count = std::min(count, 1u);
  blocks = std::min<std::uint64_t>(blocks, 1);
  clipped_blocks = std::min<std::uint64_t>(clipped_blocks, 1);
  if (crest_blocks == 0) return;
  crest_blocks = 1;
  crest = amax / std::sqrt(x2 / elements);
}

double QuantSums::sqnr_db() const {
  if (all_nan()) return std::numeric_limits<double>::quiet_NaN();
  return err2 == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(x2 / err2);
}
double QuantSums::relative_l2() const {
  if (all_nan()) return std::numeric_limits<double>::quiet_NaN();
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
  return crest_blocks ? crest / crest_blocks : 0.0;
}

void quantize_rows(const OperandFormat& format, ConstMatrix<float> in, std::uint8_t* codes, std::uint8_t* scales) {
  assert(format.scheme == QuantScheme::mx && format.block > 0);
  const ElementRounding f = rounding_of(format.element);
  const std::uint8_t nan_code = encode(format.element, std::numeric_limits<float>::quiet_NaN());
  const Index block = format.block;
  for (Index r = 0; r < in.rows; ++r) {
    for (Index c = 0; c < in.cols; c += block) {
      const float* x = in.row(r) + c;
      const Index n = std::min(block, in.cols - c);
      const std::uint8_t code = scale_code(format.rule, format.element, block_amax(x, n));
      if (code == 255)
        std::fill_n(codes, n, nan_code);
      else
        encode_block(f, x, n, inverse_scale(code), codes);
      *scales++ = code;
      codes += n;
    }
  }
}

void dequantize_rows(const OperandFormat& format, const std::uint8_t* codes, const std::uint8_t* scales,
                     Matrix<float> out) {
  const Index block = format.block;
  for (Index r = 0; r < out.rows; ++r) {
    for (Index c = 0; c < out.cols; c += block) {
      const float scale = decode_e8m0(*scales++);
      const Index n = std::min(block, out.cols - c);
      for (Index i = 0; i < n; ++i) out.row(r)[c + i] = decode(format.element, *codes++) * scale;
    }
  }
}

}  // namespace moescope
