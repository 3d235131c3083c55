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

// Thresholds are relative to what the format does to bell-shaped data (quant_format.h). Underflow is reported from this
// multiple of the share that bell-shaped data lose, and from 5 %: beyond it the data cause it, not the format. MXFP8 in
// E4M3 in healthy runs of the presets: 30.3 to 31.6 dB, at most 1.2 %.
inline constexpr double kUnderflowTimes = 5, kLeastUnderflow = 0.05;
inline constexpr double kLowSqnrBy = 4;  // dB under the reference: two thirds of a bit
// Shares of blocks. FLOOR by its rule clips 17 % of the blocks of bell-shaped data in E4M3, which is a note; half of
// the blocks is a warning. Reported only if it costs SQNR compared with RCEIL: FLOOR in E4M3 loses 0.9 dB. NVFP4's
// scales are rounded to nearest, so half of its block maxima are cut, by at most a seventeenth: this belongs to the
// format and is part of its SQNR.
inline constexpr double kClippedBlocks = 0.1, kManyClippedBlocks = 0.5, kClippingCosts = 0.5;
inline constexpr int kLastingFrames = 2;  // consecutive, 50 steps apart

class QuantWatch {
 public:
  explicit QuantWatch(int run) : run_(run) {}
  void frame(const TelemetryFrame& frame);  // steps must rise
  void findings(std::vector<Finding>& out) const;

 private:
  // Operands that are judged together: all weights with one format.
  using Group = std::tuple<FindingKind, OperandRole, std::string>;
  struct Case {
    int frames = 0;  // consecutive
    std::int64_t since = -1;
    std::vector<int> layers;  // in the newest frame, worst first
    std::set<GemmClass> classes;
    double value = 0;  // value of the worst operand
    QuantFrame worst;
  };
  void note(FindingKind kind, const QuantFrame& quant, double value, bool higher_is_worse);

  int run_;
  std::int64_t step_ = -1;
  std::map<Group, Case> cases_;
  std::map<Group, Case> fresh_;  // cases in the current frame
};

}  // namespace moescope
