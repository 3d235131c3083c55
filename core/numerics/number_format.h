// Number formats: what a tensor can be quantized to, and the one table of those that have a name of their own.
//
// What each does to a value is defined in quantize.h, what a scale follows from in scale_rules.h. A new element
// format is a row in float_formats.h and one in number_format.cpp; what findings expect of its figures, one in
// core/numerics/quant_format.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/numerics/float_formats.h"

namespace moescope {

enum class QuantScheme : std::uint8_t { fp32, bf16, fp8, mx, nvfp4 };

// How the E8M0 scale of an MX block follows from its largest magnitude, as in torchao (OCP FLOOR; RCEIL is NVIDIA's and
// the default for training); exact definitions at scale_code in scale_rules.h.
enum class ScaleRule : std::uint8_t { floor, rceil, even, ceil };
std::optional<ScaleRule> scale_rule_named(std::string_view name);
const char* scale_rule_name(ScaleRule rule);

// What shares one FP32 scale of fp8; "row" is a row of the operand as the GEMM reads it, of full contracting length.
enum class ScaleGranularity : std::uint8_t { tensor, row, block_1x128, block_128x128 };

// stochastic: y between two neighbours a < b of the format gives b with probability (y - a) / (b - a), to 2^-17, so
// that the mean of q is x wherever nothing clips: y is moved by (k + 1/2) / 2^16 of b - a, k a draw of 16 bits with its
// sign (random_bits.h), and goes to the nearer of the two. Scales are rounded as always.
enum class Rounding : std::uint8_t { nearest, stochastic };

// How NVFP4's scales follow from magnitudes. The sources agree on what is stored and differ in the order of operations,
// which moves single bits, and in the smallest scale; scale_rules.h has them operation by operation.
//   divided             torchao's scales, 2^-6 at least; values are divided by them
//   transformer_engine  TransformerEngine and torchao's training: scales may be subnormal and 0
//   torchao             torchao's NVFP4Tensor with a scale for the tensor; values are multiplied by a reciprocal
//   torchao_one_level   the same without a scale for the tensor
enum class Nvfp4Rule : std::uint8_t { divided, transformer_engine, torchao, torchao_one_level };
// TransformerEngine's 4over6: a block's largest value goes to 6 or to 4, whichever leaves the smaller error, absolute
// or squared; 6 where both leave the same.
enum class FourOverSix : std::uint8_t { off, mae, mse };

struct Nvfp4Scaling {
  Nvfp4Rule rule = Nvfp4Rule::divided;
  bool square = false;                           // tiles of 16x16 share a scale, as TransformerEngine's weights do
  FourOverSix four_over_six = FourOverSix::off;  // transformer_engine alone
  int scale_bound = 448;  // the tensor's amax gets this scale; 256 leaves room for 1.5 times that

  bool operator==(const Nvfp4Scaling&) const = default;
};

// Signs of a rotation by Hadamard matrices: drawn anew for each block of the contracting dimension and each step, or
// TransformerEngine's, the same for all blocks of 16; and whether what comes out is rounded to BF16, as its kernels do.
enum class RotationForm : std::uint8_t { drawn, fixed, fixed_bf16 };

struct OperandFormat {
  QuantScheme scheme = QuantScheme::fp32;
  ElementFormat element = ElementFormat::e4m3;              // fp8: e4m3 or e5m2; mx: any; nvfp4: e2m1
  ScaleGranularity granularity = ScaleGranularity::tensor;  // fp8
  bool power_of_two_scale = false;                          // fp8
  ScaleRule rule = ScaleRule::rceil;                        // mx
  int block = 32;                                           // mx; stochastic needs a power of two
  Nvfp4Scaling nvfp4 = {};                                  // nvfp4
  Rounding rounding = Rounding::nearest;                    // not fp32
  int hadamard = 0;  // rotate the contracting dimension first, in blocks of 16, 32, 64 or 128; 0: do not (hadamard.h)
  RotationForm rotation = RotationForm::drawn;  // fixed ones in blocks of 16

  bool operator==(const OperandFormat&) const = default;
};

inline constexpr OperandFormat kBf16Format{.scheme = QuantScheme::bf16};
inline constexpr OperandFormat kNvfp4Format{.scheme = QuantScheme::nvfp4, .element = ElementFormat::e2m1};
constexpr OperandFormat mx_format(ElementFormat element, ScaleRule rule = ScaleRule::rceil, int block = 32) {
  return {.scheme = QuantScheme::mx, .element = element, .rule = rule, .block = block};
}
constexpr OperandFormat fp8_format(ScaleGranularity granularity, ElementFormat element = ElementFormat::e4m3,
                                   bool power_of_two_scale = false) {
  return {.scheme = QuantScheme::fp8,
          .element = element,
          .granularity = granularity,
          .power_of_two_scale = power_of_two_scale};
}

// Whether values are quantized under shared scales: neither fp32 nor bf16.
constexpr bool is_scaled(const OperandFormat& format) {
  return format.scheme >= QuantScheme::fp8;
}
// One scale, or part of it, for the whole tensor.
constexpr bool has_tensor_scale(const OperandFormat& format) {
  return (format.scheme == QuantScheme::nvfp4 && format.nvfp4.rule != Nvfp4Rule::torchao_one_level) ||
         (format.scheme == QuantScheme::fp8 && format.granularity == ScaleGranularity::tensor);
}
// Values along the contracting dimension that are looked at together: a block of MX and NVFP4; of FP8, whose scale may
// serve a row or a tensor, 128.
constexpr int block_size(const OperandFormat& format) {
  return format.scheme == QuantScheme::mx ? format.block : format.scheme == QuantScheme::nvfp4 ? 16 : 128;
}
// Whether values outside of such a block have a say in its scale.
constexpr bool shares_scale(const OperandFormat& format) {
  return has_tensor_scale(format) || (format.scheme == QuantScheme::nvfp4 && format.nvfp4.square) ||
         (format.scheme == QuantScheme::fp8 && format.granularity != ScaleGranularity::block_1x128);
}

// A format by the name that run configs, the command line and lists on the screen have it under: "mxfp8_e4m3",
// "nvfp4", "fp8_row". MX in blocks of 32, scales by rceil.
struct NamedFormat {
  const char* name;
  OperandFormat format;
  bool in_training;  // precision.override_x and its like offer it
};
std::span<const NamedFormat> named_formats();  // in the order in which they are offered
// nullptr: it is none of them.
const NamedFormat* find_format(std::string_view name);
const NamedFormat* find_format(const OperandFormat& format);

// Names as recordings, logs and the screen have them, which core/numerics/quant_format.h lists:
// "mxfp8_e4m3_rceil", "nvfp4", "nvfp4_te_16x16_4over6_mae_256", "fp8_e4m3_1x128_stochastic". MX in blocks of 32, the
// standard's. A rotation is not named.
std::string format_name(const OperandFormat& format);
// "fp32", "bf16" or the element format's name.
const char* element_name(const OperandFormat& format);
// Stored bits per value, scales included; scales per tensor or per row count nothing, being that few.
double bits_per_value(const OperandFormat& format);

}  // namespace moescope
