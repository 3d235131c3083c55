// Watches quantized GEMM operands for underflow, clipping and low SQNR.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/findings/findings.h"

namespace moescope {

// Thresholds are relative to the figures of the format for bell-shaped data (number_format.h). Underflow is reported if
// it exceeds kUnderflowTimes times the underflow of bell-shaped data, and 5 %; or if it exceeds that underflow, which
// is 11 % in MXFP4, by kMaxMoreUnderflow. So much is due to the data, not to the format. Healthy runs of the presets in
// MXFP8 (E4M3) had 30.3 to 31.6 dB and at most 1.2 %.
inline constexpr double kUnderflowTimes = 5, kMinUnderflow = 0.05, kMaxMoreUnderflow = 0.1;
double underflow_limit(const QuantFormat& format);
inline constexpr double kMaxSqnrLoss = 4;  // dB under the reference: two thirds of a bit
// Shares of clipped blocks. FLOOR by its rule clips 17 % of the blocks of bell-shaped data in E4M3, which is a note;
// half of the blocks is a warning. Clipping is reported only if the SQNR is kMinClippingCostDb dB below that with
// RCEIL; FLOOR in E4M3 loses 0.9 dB. NVFP4's scales are rounded to nearest, so half of its block maxima are reduced, by
// at most a seventeenth; this belongs to the format and is part of its SQNR.
inline constexpr double kClippedBlocks = 0.1, kManyClippedBlocks = 0.5, kMinClippingCostDb = 0.5;
inline constexpr int kLastingFrames = 2;  // consecutive frames, 50 steps apart

// A fault of operands that are judged together: those with one role and one format, such as all weights in it.
struct QuantFault {
  int frames = 0;  // consecutive frames with the fault
  std::int64_t first_step = -1;
  std::vector<int> layers;  // layers with the fault in the newest frame
  std::set<GemmClass> classes;
  double value = 0;  // value of the worst operand
  QuantFrame worst;
};
// Writes title, observation and meaning of a finding of this kind.
void describe(const QuantFault& fault, Finding& finding);

class QuantWatch {
 public:
  explicit QuantWatch(int run) : run_(run) {}
  // Steps must rise. A frame that is not counted only brings the figures of earlier faults up to date.
  void frame(const TelemetryFrame& frame, bool is_counted = true);
  void findings(std::vector<Finding>& out) const;

 private:
  using Group = std::tuple<FindingKind, OperandRole, std::string>;  // the name of the format
  void note(FindingKind kind, const QuantFrame& quant, double value, bool higher_is_worse);

  int run_;
  std::int64_t step_ = -1;
  std::map<Group, QuantFault> faults_;
  std::map<Group, QuantFault> fresh_;  // faults in the current frame
};

}  // namespace moescope
