// Number formats by the names that QuantFrame::format has them under, and what a figure means in each.
//
//   bf16
//   mxfp8_e4m3_RULE  mxfp8_e5m2_RULE  mxfp6_e2m3_RULE  mxfp6_e3m2_RULE  mxfp4_e2m1_RULE    RULE: floor rceil even ceil
//   nvfp4
//   fp8_e4m3_SHARE  fp8_e5m2_SHARE    one FP32 scale for SHARE: tensor row 1x128 128x128
//
// "_stochastic" follows where values are rounded up or down by chance. "e4m3", the element alone, stands in recordings
// of before and in logs of other programs: what scales it then has is not known.
//
// Figures of bell-shaped data are those of a standard normal tensor of 1024 x 1024
// (tests/core/telemetry/test_quant_format.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace moescope {

enum class QuantScale : std::uint8_t { none, power_of_two, e4m3, fp32, unknown };

struct QuantFormat {
  QuantScale scale = QuantScale::unknown;
  std::string element;  // "e4m3"; empty: not known
  std::string rule;     // of MX
  int block = 0;        // values that share a scale, of a full block; 0: none, a row or tensor of them, or not known
  bool stochastic = false;
};
QuantFormat quant_format(std::string_view name);

// SQNR of bell-shaped data, dB; by MX's RCEIL where the rule or the scale is not known. NaN: no such figure.
double bell_sqnr_db(const QuantFormat& format);
// The same by RCEIL, whatever the rule; of formats that are not MX as above.
double bell_sqnr_db_by_rceil(const QuantFormat& format);
// Share of non-zero values of bell-shaped data that become zero; in MX by RCEIL. NaN: no such figure.
double bell_underflow(const QuantFormat& format);
// The most of its largest value that a block can lose to the format's largest number: 0.125 in E4M3 by FLOOR; 0 where
// nothing clips; NaN: not known.
double largest_cut(const QuantFormat& format);

}  // namespace moescope
