// What the number formats of runs lose in the operands that the runs differ in: a mean over all quantized operands
// would hide it behind those that are in BF16 in every run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/comparison/gap_track.h"

namespace moescope {

// Which operands are looked at.
enum class OperandChoice {
  none,       // nothing is quantized
  differing,  // whose format is another one than in run A; of run A: than in any other run
  scaled,     // the runs have the same formats: those in 8 bits and fewer
  all         // all are in BF16 or FP32
};

struct OperandSqnr {
  OperandChoice choice = OperandChoice::none;
  int operands = 0;
  float worst_db = kNoValue, mean_db = kNoValue;  // +inf: exact; the mean is over those that are not
  OperandPlace worst;
};

// [run], run A first: at the newest step up to `step` at which operands were measured.
std::vector<OperandSqnr> operand_sqnr(std::span<const HistoryPtr> runs, std::int64_t step);

// Below a table of runs.
inline constexpr const char* kSqnrNote =
    "SQNR: signal-to-quantization-noise ratio in dB, as last measured. The worst and the mean are taken over the "
    "operands whose format differs from run A's (for run A: from that of any other run). If no format differs, they "
    "are taken over the operands of at most 8 bits.";

// "17.1 dB at worst (layer 1, experts w2, dY wgrad), mean of 12 operands in which the runs differ"; empty: none.
std::string to_text(const OperandSqnr& sqnr);

}  // namespace moescope
