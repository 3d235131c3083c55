// Everything that happens to one block, exact and in words: for the block microscope.
//
// The same arithmetic as block_quantize.h, element by element with every intermediate value kept:
//   amax -> scale code c (derivation in words) -> y = x * 2^(127 - c) -> code -> decoded -> q = decoded * 2^(c - 127)
// and for NVFP4 as operand_format.h:
//   t of the tensor's amax -> E4M3 code of the block scale s -> y = x / (t s) -> code -> decoded -> q = decoded * (t s)
// and for FP8:
//   amax of all that shares the scale -> e = max / amax -> y = x * e -> code -> decoded -> q = decoded * (1 / e)
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/numerics/operand_format.h"

namespace moescope {

enum class CodeKind : std::uint8_t { zero, subnormal, normal, infinity, nan };
const char* code_kind_name(CodeKind kind);

// The fields of an element code. INT8 has no exponent: sign is its top bit, mantissa the seven bits below.
struct CodeFields {
  std::uint8_t code = 0;
  int sign = 0, exponent = 0, mantissa = 0;
  CodeKind kind = CodeKind::zero;
  float value = 0;
  std::string formula;  // "+ 2^(9 - 7) x (1 + 3/8) = 5.5"
};
CodeFields code_fields(ElementFormat format, std::uint8_t code);
CodeFields e8m0_fields(std::uint8_t code);  // sign and mantissa 0

// All finite values of a format, ascending, -0 and +0 once.
const std::vector<float>& representable_values(ElementFormat format);

// The representable values around y: the largest <= y and the smallest >= y; both the same where y is one of them or
// lies outside the range. NaN for NaN.
struct Neighbours {
  float below, above;
};
Neighbours neighbours(ElementFormat format, float y);

// How a block is looked at: in MX, in NVFP4, or in FP8.
struct BlockChoice {
  ElementFormat element = ElementFormat::e4m3;
  ScaleRule rule = ScaleRule::rceil;
  int block = 32;                            // elements sharing a scale
  bool nvfp4 = false;                        // E2M1 in blocks of 16; `rule` counts for nothing
  std::optional<ScaleGranularity> fp8 = {};  // an FP32 scale for each; `block` values of it are looked at together
  bool power_of_two = false;                 // scales of FP8
  BlockFormat mx() const { return {element, rule, block}; }
  bool operator==(const BlockChoice&) const = default;
};
inline constexpr BlockChoice kNvfp4 = {ElementFormat::e2m1, ScaleRule::rceil, 16, true, {}, false};
constexpr BlockChoice fp8_choice(ScaleGranularity granularity, ElementFormat element = ElementFormat::e4m3,
                                 bool power_of_two = false) {
  return {element, ScaleRule::rceil, 128, false, granularity, power_of_two};
}
// Whether values outside of a block have a say in its scale.
constexpr bool shares_scale(const BlockChoice& format) {
  return format.nvfp4 || (format.fp8 && format.fp8 != ScaleGranularity::block_1x128);
}

// NVFP4's scales. Both finite; amax of a NaN block has none.
float nvfp4_tensor_scale(float tensor_amax);                     // t
std::uint8_t nvfp4_scale_code(float amax, float tensor_scale);   // E4M3 code of s
float nvfp4_scale(std::uint8_t scale_code, float tensor_scale);  // t s

// FP8's encoding scale e; the scale is 1 / e.
float fp8_encoding_scale(const BlockChoice& format, float amax);

enum class BlockRounding : std::uint8_t { nearest_even, stochastic };

struct ElementAnatomy {
  float value = 0;            // x
  float scaled = 0;           // y = x / scale
  CodeFields fields;          // of the stored code
  float decoded = 0;          // value of the code
  float dequantized = 0;      // q; NaN in a NaN block
  double error = 0;           // q - x
  Neighbours grid{0, 0};      // of y
  double probability_up = 0;  // (y - below) / (above - below): what stochastic rounding draws against
  bool underflow = false;     // x != 0 and q == 0
  bool clipped = false;       // |y| > largest value of the format
};

struct BlockAnatomy {
  BlockChoice format;
  BlockRounding rounding = BlockRounding::nearest_even;
  float amax = 0;
  int amax_at = -1;             // index of the first element that has it, or of the first NaN or infinity; -1: all zero
  std::uint8_t scale_code = 0;  // E8M0; of NVFP4 E4M3, of FP8 none
  float tensor_scale = 1;       // t of NVFP4
  float scale = 0;              // NaN in a NaN block
  bool is_nan() const { return scale != scale; }
  std::vector<std::string> derivation;  // one sentence a step, with this block's numbers
  std::vector<ElementAnatomy> elements;
  QuantSums sums;
};

// `values` is the block (format.block is not used). Stochastic rounding moves up with probability_up, decided by draw
// number `draw` of a counter-based stream: the same draw gives the same codes. `shared_amax`: of all that has a say in
// the scale, NVFP4's whole tensor or what shares an FP8 scale; that of the block where the block has more.
BlockAnatomy block_anatomy(const BlockChoice& format, std::span<const float> values,
                           BlockRounding rounding = BlockRounding::nearest_even, std::int64_t draw = 0,
                           float shared_amax = 0);

}  // namespace moescope
