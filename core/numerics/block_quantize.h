// Microscaling block quantization: one E8M0 scale per block of consecutive elements along one axis.
//
// For a block with amax = max |v|:  code = scale_code(rule, format, amax);  q_i = encode(v_i * 2^(127 - code));
// dequantized v_i = decode(q_i) * 2^(code - 127). If a block holds a NaN or an infinity, its code is 255 and all its
// values become NaN. Scale rules: scale_rules.h. If the length of a row is no multiple of the block, its last block is
// shorter.
#pragma once

#include <array>
#include <cstdint>

#include "core/numerics/matrix.h"
#include "core/numerics/number_format.h"

namespace moescope {

// Sums from which every figure of QuantFrame follows. Adding the sums of two tensors gives the sums of both tensors
// together.
struct QuantSums {
  std::array<std::uint32_t, 256> e8m0_blocks{};
  float amax = 0;                           // amax of the finite values
  double x2 = 0, q2 = 0, xq = 0, err2 = 0;  // sums over the elements of blocks whose scale is not 255
  std::uint64_t elements = 0;
  std::uint64_t nonzero = 0;    // x != 0
  std::uint64_t underflow = 0;  // x != 0 and q == 0
  std::uint64_t clipped = 0;    // |x| / scale > format max
  std::uint64_t blocks = 0, clipped_blocks = 0;
  double crest = 0;  // sum over non-zero finite blocks of amax / rms
  std::uint64_t crest_blocks = 0;

  void add(const QuantSums& other);
  void count_as_one_block();  // counts the parts of a tensor that has one scale as one block
  bool all_nan() const { return x2 == 0 && nonzero > 0; }  // true if no value has an error that can be computed
  double sqnr_db() const;                                  // 10 log10(x2 / err2); +inf if exact, NaN if all_nan()
  double relative_l2() const;                              // sqrt(err2 / x2); NaN if all_nan()
  double cosine() const;                                   // NaN if either tensor is zero
  double underflow_share() const, clipped_share() const, clipped_blocks_share() const, mean_crest() const;
};

enum class BlockAxis : std::uint8_t { row, column };  // row: blocks along a row (last axis); column: down a column

// Computes the stored form of MX: one code per byte in the low bits, one scale byte per block, blocks along rows.
// Rounds to nearest and does not rotate.
void quantize_rows(const OperandFormat& format, ConstMatrix<float> in, std::uint8_t* codes, std::uint8_t* scales);
// Decodes the stored form that quantize_rows() computes.
void dequantize_rows(const OperandFormat& format, const std::uint8_t* codes, const std::uint8_t* scales,
                     Matrix<float> out);

}  // namespace moescope
