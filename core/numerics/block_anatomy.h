// Every step of the quantization of one block, exact and in words, for the block microscope.
//
// Computes the results of block_quantize.h element by element and keeps every intermediate value:
//   amax -> scale code c (derivation in words) -> y = x * 2^(127 - c) -> code -> decoded -> q = decoded * 2^(c - 127)
// for NVFP4 as in quantize.h:
//   t of the tensor's amax -> E4M3 code of the block scale s -> y = x / (t s) -> code -> decoded -> q = decoded * (t s)
// for FP8:
//   amax of all values that share the scale -> e = max / amax -> y = x * e -> code -> decoded -> q = decoded * (1 / e)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/numerics/block_quantize.h"
#include "core/numerics/scale_rules.h"

namespace moescope {

enum class CodeKind : std::uint8_t { zero, subnormal, normal, infinity, nan };

// The fields of an element code. INT8 has no exponent: sign is its top bit, mantissa the seven bits below.
struct CodeFields {
  std::uint8_t code = 0;
  int sign = 0, exponent = 0, mantissa = 0;
  CodeKind kind = CodeKind::zero;
  float value = 0;
  std::string formula;  // "+ 2^(9 - 7) x (1 + 3/8) = 5.5"
};
CodeFields code_fields(ElementFormat format, std::uint8_t code);

// Returns all finite values of a format in ascending order, with -0 and +0 as one value.
const std::vector<float>& representable_values(ElementFormat format);

// The largest representable value <= y and the smallest one >= y. Both are equal if y is representable or outside of
// the range. Both are NaN if y is NaN.
struct Neighbours {
  float below, above;
};
Neighbours neighbours(ElementFormat format, float y);

struct ElementAnatomy {
  float value = 0;            // x
  float scaled = 0;           // y = x / scale
  CodeFields fields;          // fields of the stored code
  float decoded = 0;          // value of the code
  float dequantized = 0;      // q; NaN in a NaN block
  double error = 0;           // q - x
  Neighbours grid{0, 0};      // neighbours of y
  double probability_up = 0;  // (y - below) / (above - below): probability with which stochastic rounding rounds up
  bool underflow = false;     // x != 0 and q == 0
  bool clipped = false;       // |y| > largest value of the format
};

struct BlockAnatomy {
  OperandFormat format;  // fp8, mx or nvfp4
  float amax = 0;
  int amax_at = -1;  // index of the first element with this magnitude, or of the first NaN or infinity; -1 if all are 0
  BlockScale scale;
  bool is_nan() const { return scale.value != scale.value; }
  std::vector<std::string> derivation;  // one sentence per step, with the numbers of this block
  std::vector<ElementAnatomy> elements;
  QuantSums sums;
};

// Quantizes the block `values`. If the format rounds stochastically, an element is rounded up with probability_up. The
// random numbers come from a counter-based stream with seed `draw`, so that the same `draw` gives the same codes.
// `shared_amax` is defined at block_scale() in scale_rules.h.
BlockAnatomy block_anatomy(const OperandFormat& format, std::span<const float> values, std::int64_t draw = 0,
                           float shared_amax = 0);

}  // namespace moescope
