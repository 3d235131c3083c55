// Number formats that a tensor can be quantized to, and the table of formats with a name of their own.
//
// quantize.h defines their effect on a value; scale_rules.h defines their scales and the values that share one. A new
// element format needs a row in float_formats.h and two in number_format.cpp, one of them with the figures that
// findings expect of it; without it number_format.cpp does not compile.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/numerics/float_formats.h"
#include "core/numerics/names.h"

namespace moescope {

enum class QuantScheme : std::uint8_t { fp32, bf16, fp8, mx, nvfp4 };

// Rule that computes the E8M0 scale of an MX block from its largest magnitude, as in torchao (FLOOR is OCP's rule;
// RCEIL is NVIDIA's rule and the default for training). scale_rules.h has the exact definitions.
enum class ScaleRule : std::uint8_t { floor, rceil, even, ceil };
inline constexpr auto scale_rule_name = names_of<ScaleRule>("floor", "rceil", "even", "ceil");

// Values that share one FP32 scale of fp8. "row" is a row of the operand as the GEMM reads it: it has the full length
// of the contracting dimension.
enum class ScaleGranularity : std::uint8_t { tensor, row, block_1x128, block_128x128 };
inline constexpr auto granularity_name = names_of<ScaleGranularity>("tensor", "row", "1x128", "128x128");

// stochastic: y between two neighbours a < b of the format gives b with probability (y - a) / (b - a), to 2^-17, so
// that the mean of q is x wherever nothing clips. y is moved by (k + 1/2) / 2^16 of b - a, where k is a signed draw of
// 16 bits (rng.h), and rounded to the nearest. Scales are always rounded by their rule.
enum class Rounding : std::uint8_t { nearest, stochastic };

// Rule that computes NVFP4's scales from magnitudes. The rules agree on what is stored. They differ in the smallest
// scale and in the order of operations, which changes single bits. scale_rules.h lists the operations.
//   divided             torchao's scales, 2^-6 at least; values are divided by them
//   transformer_engine  TransformerEngine and torchao's training: scales may be subnormal and 0
//   torchao             torchao's NVFP4Tensor with a scale for the tensor; values are multiplied by a reciprocal
//   torchao_one_level   torchao's NVFP4Tensor without a scale for the tensor
enum class Nvfp4Rule : std::uint8_t { divided, transformer_engine, torchao, torchao_one_level };
// TransformerEngine's 4over6: a block's largest value is scaled to 6 or to 4, whichever leaves the smaller error,
// absolute (mae) or squared (mse); to 6 if both errors are equal.
enum class FourOverSix : std::uint8_t { off, mae, mse };

struct Nvfp4Scaling {
  Nvfp4Rule rule = Nvfp4Rule::divided;
  bool square = false;                           // tiles of 16x16 share a scale, as for TransformerEngine's weights
  FourOverSix four_over_six = FourOverSix::off;  // only with transformer_engine
  int scale_bound = 448;                         // block scale of the tensor's amax; 256 leaves room for 1.5 times 256

  bool operator==(const Nvfp4Scaling&) const = default;
};

// Signs of a rotation by Hadamard matrices. drawn: random signs, drawn anew for each block of the contracting dimension
// and each step. fixed: the signs of TransformerEngine, equal for all blocks of 16. fixed_bf16: these signs, with
// results rounded to BF16, as in TransformerEngine's kernels.
enum class RotationForm : std::uint8_t { drawn, fixed, fixed_bf16 };

struct OperandFormat {
  QuantScheme scheme = QuantScheme::fp32;
  ElementFormat element = ElementFormat::e4m3;              // fp8: e4m3 or e5m2; mx: any; nvfp4: e2m1
  ScaleGranularity granularity = ScaleGranularity::tensor;  // fp8
  bool power_of_two_scale = false;                          // fp8
  ScaleRule rule = ScaleRule::rceil;                        // mx
  int block = 32;                                           // mx; stochastic needs a power of two
  Nvfp4Scaling nvfp4 = {};                                  // nvfp4
  Rounding rounding = Rounding::nearest;                    // for all schemes but fp32
  int hadamard = 0;                             // block of the rotation (hadamard.h): 16, 32, 64 or 128; 0: no rotation
  RotationForm rotation = RotationForm::drawn;  // fixed signs need blocks of 16

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

// True if values are quantized with shared scales, as in all schemes but fp32 and bf16.
constexpr bool is_scaled(const OperandFormat& format) {
  return format.scheme >= QuantScheme::fp8;
}
// Returns the number of values along the contracting dimension that form a block: the block of MX or NVFP4; 128 for
// FP8, even if its scale belongs to a row or a tensor.
constexpr int block_size(const OperandFormat& format) {
  if (format.scheme == QuantScheme::mx) return format.block;
  if (format.scheme == QuantScheme::nvfp4) return 16;
  return 128;
}

// A format with its name in run configs, on the command line and in lists on the screen: that of format_name() without
// the scale rule rceil and, for FP8, without e4m3: "mxfp8_e4m3", "fp8_tensor". MX has blocks of 32. Scales of fp8_row
// are not rounded; those of the recipe fp8_rowwise are powers of two.
struct NamedFormat {
  const char* name;
  OperandFormat format;
  bool in_training;  // precision.override_x and similar keys offer it
};
std::span<const NamedFormat> named_formats();  // in the order of the lists on the screen
// Returns nullptr if no format has this name.
const NamedFormat* find_format(std::string_view name);
const NamedFormat* find_format(const OperandFormat& format);

// Returns the name used in recordings, logs and on the screen (core/numerics/number_format.h): "mxfp8_e4m3_rceil",
// "nvfp4", "nvfp4_te_16x16_4over6_mae_256", "fp8_e4m3_1x128_stochastic". An MX format must have the standard's blocks
// of 32. The name does not show a rotation.
std::string format_name(const OperandFormat& format);
// Returns "fp32", "bf16" or the element format's name.
const char* element_name(const OperandFormat& format);
// Returns the stored bits per value, including block scales. Scales per tensor or per row are so few that they are not
// counted.
double bits_per_value(const OperandFormat& format);

// The number format of a recorded operand, its name in files and on the screen, and reference figures. A name is read
// back by comparing it with those of all formats, so that a new format of number_format.h is known here.
//
//   fp32  bf16
//   NAME_RULE    MX: name as in named_formats(), and floor rceil even ceil: mxfp8_e4m3_rceil
//   nvfp4  nvfp4_te  nvfp4_ao  nvfp4_ao1, with _16x16 for squares, _4over6_mae, _4over6_mse, _256: the arithmetics of
//          number_format.h's Nvfp4Scaling
//   fp8_e4m3_SHARE  fp8_e5m2_SHARE    one FP32 scale for SHARE: tensor row 1x128 128x128
//
// "_stochastic" is appended for stochastic rounding. "e4m3", the element alone, occurs in logs of other programs, whose
// scales are unknown.
//
// Figures of bell-shaped data are those of a standard normal tensor of 1024 x 1024
// (tests/core/numerics/test_quant_format.cpp).
enum class QuantScale : std::uint8_t { none, power_of_two, e4m3, fp32, unknown };

struct QuantFormat {
  QuantScale scale = QuantScale::unknown;
  std::optional<OperandFormat> operand = {};  // nullopt: the scale is unknown
  std::optional<ElementFormat> element = {};  // nullopt: no scale, or the name is unknown
  int block = 0;          // values that share a scale in a full block; 0: no scale, a whole row or tensor, or unknown
  std::string name = {};  // that of format_name(), of the element alone, or any name in a log of another program

  bool operator==(const QuantFormat&) const = default;
};
// Leaves out what names do not show: rotations, and whether the scales of FP8 are powers of two.
QuantFormat quant_format(const OperandFormat& format);
// Reads every name that format_name() gives, and those of named_formats().
QuantFormat quant_format(std::string_view name);

// SQNR of bell-shaped data, dB. For MX, RCEIL is assumed if the rule or the scale is unknown. NaN if there is no such
// figure.
double bell_sqnr_db(const QuantFormat& format);
// SQNR of bell-shaped data, dB, with RCEIL for MX whatever the rule is; other formats as in bell_sqnr_db().
double bell_sqnr_db_by_rceil(const QuantFormat& format);
// Share of the non-zero values of bell-shaped data that become zero; RCEIL for MX. NaN if there is no such figure.
double bell_underflow(const QuantFormat& format);
// The largest relative error that clipping gives a block's largest value: 0.125 in E4M3 with FLOOR; 0 if nothing clips;
// NaN if unknown.
double largest_cut(const QuantFormat& format);

}  // namespace moescope
