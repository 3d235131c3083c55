#include "core/numerics/block_quantize.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

#include "core/numerics/kernels/float_rounding.h"
#include "core/numerics/kernels/quantize_blocks.h"
#include "core/numerics/scale_rules.h"

namespace moescope {
namespace {

// 2^(127 - code); a float32 subnormal at code 254.
float inverse_scale(std::uint8_t code) {
  return decode_e8m0(static_cast<std::uint8_t>(254 - code));
}

float block_amax(const float* x, Index step, Index n) {
  std::uint32_t bits = 0;
  for (Index i = 0; i < n; ++i) bits = std::max(bits, std::bit_cast<std::uint32_t>(x[i * step]) & 0x7FFFFFFF);
  return std::bit_cast<float>(bits);  // NaN orders above infinity, infinity above all numbers
}

void encode_block(const ElementRounding& rounding, const float* __restrict x, Index n, float inverse,
                  std::uint8_t* __restrict codes) {
  const ElementRounding f = rounding;
  for (Index i = 0; i < n; ++i) codes[i] = encode_number(f, x[i] * inverse);
}

// Returns the value of one unit of element times scale.
double nvfp4_unit(const Nvfp4Scaling& scaling, float tensor_amax) {
  if (scaling.rule == Nvfp4Rule::divided) return static_cast<double>(nvfp4_tensor_scale(tensor_amax));
  return nvfp4_tensor(scaling, tensor_amax).unit;
}

struct StoredScale {
  Nvfp4Block block;
  std::uint8_t code;
};

StoredScale stored_nvfp4_scale(const OperandFormat& format, const Nvfp4Tensor& tensor, const SharedBlock& values) {
  std::uint32_t bits = 0;
  for (Index r = 0; r < values.rows; ++r)
    bits = std::max(bits, std::bit_cast<std::uint32_t>(block_amax(values.x + r * values.row_stride, 1, values.count)));
  const float amax = std::bit_cast<float>(bits);
  if (!std::isfinite(amax) || !std::isfinite(tensor.amax)) return {{}, 0x7F};
  const bool four = format.nvfp4.four_over_six != FourOverSix::off && goes_to_four(format.nvfp4, tensor, amax, values);
  const Nvfp4Block block = nvfp4_block_of(format.nvfp4, tensor, amax, four);
  return {block, encode(ElementFormat::e4m3, block.s)};
}

void encode_nvfp4(const Nvfp4Rule rule, const StoredScale& scale, const float* x, Index n, std::uint8_t* codes) {
  const ElementRounding f = rounding_of(ElementFormat::e2m1);
  for (Index i = 0; i < n; ++i)
    codes[i] = scale.code == 0x7F ? f.max_code
                                  : encode_number(f, rule == Nvfp4Rule::divided ? x[i] / scale.block.decode
                                                                                : x[i] * scale.block.encode);
}

void quantize_nvfp4_rows(const OperandFormat& format, ConstMatrix<float> in, float tensor_amax, std::uint8_t* codes,
                         std::uint8_t* scales) {
  constexpr Index kBlock = 16;
  const Nvfp4Tensor tensor = nvfp4_tensor(format.nvfp4, has_tensor_scale(format) ? tensor_amax : 1);
  const Index across = format.nvfp4.square ? kBlock : 1, per_row = (in.cols + kBlock - 1) / kBlock;
  for (Index first = 0; first < in.rows; first += across)
    for (Index b = 0; b < per_row; ++b) {
      const Index rows = std::min(across, in.rows - first), col = b * kBlock, n = std::min(kBlock, in.cols - col);
      const StoredScale scale = stored_nvfp4_scale(format, tensor, {in.row(first) + col, rows, in.stride, n, 1});
      for (Index r = first; r < first + rows; ++r) {
        scales[r * per_row + b] = scale.code;
        encode_nvfp4(format.nvfp4.rule, scale, in.row(r) + col, n, codes + r * in.cols + col);
      }
    }
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

}  // namespace

void QuantSums::add(const QuantSums& other) {
  for (int i = 0; i < 256; ++i) e8m0_blocks[i] += other.e8m0_blocks[i];
  amax = std::max(amax, other.amax);
  x2 += other.x2, q2 += other.q2, xq += other.xq, err2 += other.err2;
  elements += other.elements, nonzero += other.nonzero;
  underflow += other.underflow, clipped += other.clipped;
  blocks += other.blocks, clipped_blocks += other.clipped_blocks;
  crest += other.crest, crest_blocks += other.crest_blocks;
}

void QuantSums::join_blocks() {
  for (std::uint32_t& count : e8m0_blocks) count = std::min(count, 1u);
  blocks = std::min<std::uint64_t>(blocks, 1);
  clipped_blocks = std::min<std::uint64_t>(clipped_blocks, 1);
  if (crest_blocks == 0) return;
  crest_blocks = 1;
  crest = amax / std::sqrt(x2 / static_cast<double>(elements));
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
  return crest_blocks ? crest / static_cast<double>(crest_blocks) : 0.0;
}

void quantize_rows(const OperandFormat& format, ConstMatrix<float> in, std::uint8_t* codes, std::uint8_t* scales,
                   float tensor_amax) {
  if (format.scheme == QuantScheme::nvfp4) return quantize_nvfp4_rows(format, in, tensor_amax, codes, scales);
  assert(format.scheme == QuantScheme::mx && format.block > 0);
  const ElementRounding f = rounding_of(format.element);
  const std::uint8_t nan_code = encode(format.element, std::numeric_limits<float>::quiet_NaN());
  const Index block = format.block;
  for (Index r = 0; r < in.rows; ++r) {
    for (Index c = 0; c < in.cols; c += block) {
      const float* x = in.row(r) + c;
      const Index n = std::min(block, in.cols - c);
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

void dequantize_rows(const OperandFormat& format, const std::uint8_t* codes, const std::uint8_t* scales,
                     Matrix<float> out, float tensor_amax) {
  const Index block = block_size(format);
  const double unit = format.scheme == QuantScheme::nvfp4 ? nvfp4_unit(format.nvfp4, tensor_amax) : 0;
  for (Index r = 0; r < out.rows; ++r) {
    for (Index c = 0; c < out.cols; c += block) {
      const std::uint8_t code = *scales++;
      const float scale = format.scheme == QuantScheme::nvfp4
                              ? static_cast<float>(static_cast<double>(decode(ElementFormat::e4m3, code)) * unit)
                              : decode_e8m0(code);
      const Index n = std::min(block, out.cols - c);
      for (Index i = 0; i < n; ++i) out.row(r)[c + i] = decode(format.element, *codes++) * scale;
    }
  }
}

}  // namespace moescope
