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

// Compared with what the same format does to bell-shaped data (quant_format.h). Underflow is reported from this
// multiple of the share that bell-shaped data lose, 5 % at least: beyond it the data, not the format, are the cause.
// MXFP8 in E4M3 in healthy runs of the presets: 30.3 to 31.6 dB, 1.2 % at most.
inline constexpr double kUnderflowTimes = 5, kLeastUnderflow = 0.05;
inline constexpr double kLowSqnrBy = 4;  // dB under the reference: two thirds of a bit
// Shares of blocks. FLOOR by its rule clips 17 % of the blocks of bell-shaped data in E4M3, which deserves a note; half
// of them a warning. Only reported where it costs SQNR compared with RCEIL: FLOOR in E4M3 loses 0.9 dB. NVFP4's scales
// are rounded to nearest, so half of its block maxima are cut, by a seventeenth at most: that is the format, and
// counted in its SQNR.
inline constexpr double kClippedBlocks = 0.1, kManyClippedBlocks = 0.5, kClippingCosts = 0.5;
inline constexpr int kLastingFrames = 2;  // in a row, 50 steps apart

class QuantWatch {
 public:
  explicit QuantWatch(int run) : run_(run) {}
  void frame(const TelemetryFrame& frame);  // at rising steps
  void findings(std::vector<Finding>& out) const;

 private:
  // Operands that are judged together: those of all weights in one format.
  using Group = std::tuple<FindingKind, OperandRole, std::string>;
  struct Case {
    int frames = 0;  // in a row
    std::int64_t since = -1;
    std::vector<int> layers;  // in the newest frame, the worst first
    std::set<GemmClass> classes;
    double value = 0;  // of the worst
    QuantFrame worst;
  };
  void note(FindingKind kind, const QuantFrame& quant, double value, bool higher_is_worse);

  int run_;
  std::int64_t step_ = -1;
  std::map<Group, Case> cases_;
  std::map<Group, Case> fresh_;  // of the frame being read
};

}  // namespace moescope
