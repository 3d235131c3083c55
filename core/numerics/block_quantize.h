// Microscaling block quantization: a shared E8M0 scale per block of consecutive elements along one axis.
//
// For a block with amax = max |v|:  code = scale_code(rule, format, amax);  q_i = encode(v_i * 2^(127 - code));
// dequantized v_i = decode(q_i) * 2^(code - 127). A NaN or infinity in a block gives code 255 and a NaN block.
// Scale rules as in torchao (OCP FLOOR; RCEIL is NVIDIA's and the default for training); exact definitions at
// scale_code. A row whose length is no multiple of the block ends in a shorter block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/numerics/float_formats.h"

namespace moescope {

enum class ScaleRule : std::uint8_t { floor, rceil, even, ceil };
std::optional<ScaleRule> scale_rule_named(std::string_view name);
const char* scale_rule_name(ScaleRule rule);

// E = exponent field and M = mantissa field of amax in float32, emax and m those of the format:
//   floor  clamp(E - emax, 0, 254)
//   ceil   clamp(E + (M != 0) - emax, 0, 254)
//   even   amax's bits + (1 << (22 - m)) first, then as floor; 255 if that overflows to infinity
//   rceil  smallest 2^k >= amax * float32(1 / max), k >= -127
// 255 for amax NaN or infinite.
std::uint8_t scale_code(ScaleRule rule, ElementFormat format, float amax);

struct BlockFormat {
  ElementFormat element = ElementFormat::e4m3;
  ScaleRule rule = ScaleRule::rceil;
  int block = 32;  // elements sharing a scale
};

// Sums from which every figure of QuantFrame follows; adding two gives those of both tensors together.
struct QuantSums {
  std::array<std::uint32_t, 256> e8m0_blocks{};
  float amax = 0;                           // of finite values
  double x2 = 0, q2 = 0, xq = 0, err2 = 0;  // sums over elements of blocks whose scale is not 255
  std::uint64_t elements = 0;
  std::uint64_t nonzero = 0;    // x != 0
  std::uint64_t underflow = 0;  // x != 0 and q == 0
  std::uint64_t clipped = 0;    // |x| / scale > format max
  std::uint64_t blocks = 0, clipped_blocks = 0;
  double crest = 0;  // sum over non-zero finite blocks of amax / rms
  std::uint64_t crest_blocks = 0;

  void add(const QuantSums& other);
  void join_blocks();  // parts of one tensor with one scale were counted as blocks: make them one
  bool all_nan() const { return x2 == 0 && nonzero > 0; }  // nothing is left of which an error could be told
  double sqnr_db() const;                                  // 10 log10(x2 / err2); +inf when exact, NaN when all_nan()
  double relative_l2() const;                              // sqrt(err2 / x2); NaN when all_nan()
  double cosine() const;                                   // NaN when either tensor is zero
  double underflow_share() const, clipped_share() const, clipped_blocks_share() const, mean_crest() const;
};

// A row-major matrix view: `stride` floats from row to row.
struct MatrixView {
  const float* data;
  std::size_t rows, cols, stride;
};
enum class BlockAxis : std::uint8_t { row, column };  // row: blocks along a row (last axis); column: down a column

// Quantizes and decodes again into `out` (same shape, `out_stride`, no overlap with `in`), exactly; statistics when
// `sums` is given. Column blocks may use fewer than `block` rows at the end, as if padded with zero rows.
void quantize_dequantize(const BlockFormat& format, MatrixView in, BlockAxis axis, float* out, std::size_t out_stride,
                         QuantSums* sums);

// The stored form: one code a byte in the low bits, one scale byte per block, blocks along rows.
void quantize_rows(const BlockFormat& format, MatrixView in, std::uint8_t* codes, std::uint8_t* scales);
void dequantize_rows(const BlockFormat& format, const std::uint8_t* codes, const std::uint8_t* scales, std::size_t rows,
                     std::size_t cols, float* out);

}  // namespace moescope
