// SQNR of the operands whose formats differ between runs. A mean over all quantized operands would be dominated by
// operands that are in BF16 in every run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/findings/comparison/gap_track.h"

namespace moescope {

// Operands over which an SQNR is taken.
enum class OperandChoice {
  none,       // no operand was measured
  differing,  // operands whose format differs from run A's (for run A: from any other run's)
  scaled,     // operands of at most 8 bits, as the runs have equal formats
  all         // all operands, as all are in BF16 or FP32
};

struct OperandSqnr {
  OperandChoice choice = OperandChoice::none;
  int operands = 0;
  float worst_db = kNoValue, mean_db = kNoValue;  // +inf: exact; exact operands are left out of the mean
  OperandPlace worst;
};

// Returns the SQNR for each run, run A first, at the newest step up to `step` with measured operands.
std::vector<OperandSqnr> operand_sqnr(std::span<const HistoryPtr> runs, std::int64_t step);

// Ends of the colour scale of SQNR in dB, the same for all runs. Errors at or below the first have its strong end,
// errors at or above the second its pale end.
inline constexpr double kStrongSqnrDb = 10, kPaleSqnrDb = 56;

// SNR of a gradient, 20 log10(sqrt(3)) dB, below which its norm is less than sqrt(3) times the norm of its error. A
// step by a stochastic gradient with such an error is no longer effective (arXiv:2505.19115, section 4).
inline constexpr double kMinGradientSnrDb = 4.771;

// Note below a table of runs.
inline constexpr const char* kSqnrNote =
    "SQNR: signal-to-quantization-noise ratio in dB, as last measured. The worst and the mean are taken over the "
    "operands whose format differs from run A's (for run A: from that of any other run). If no format differs, they "
    "are taken over the operands of at most 8 bits.";

// Returns "17.1 dB at worst (layer 1, experts w2, dY wgrad), mean of 12 operands in which the runs differ"; empty if no
// operand was measured.
std::string to_text(const OperandSqnr& sqnr);

}  // namespace moescope
