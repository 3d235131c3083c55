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
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/numerics/number_format.h"

namespace moescope {

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
