// Explains a figure: its formula with the present values filled in, for the explain cards.
//
// The expression is plain arithmetic, + - * / ^ ( ) with ln, log10, exp, sqrt, cos, ceil, max, mean and median, and its
// value is what the screen shows (tests/core/findings/test_explain.cpp evaluates it). Where a frame does not hold the
// values that a figure was computed from (a mean over tokens), the expression is the value itself and `note` says what
// it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/frame/metrics.h"
#include "core/frame/operand_place.h"
#include "core/history/history.h"

namespace moescope {

// The figure to explain.
struct FigureTarget {
  FigureKey key;
  int layer = kWholeRun;  // kWholeRun: of the run, or the mean over its layers
  int expert = -1;        // of array figures
  int other = -1;  // second index: the domain, second expert, byte, GradientGroup; of an all-to-all 1: de-duplicated
  std::int64_t step = 0;                // the newest value at or before it
  std::int64_t reference = -1;          // of routing stability: the earlier step; -1: the routing before
  double parameter = kNoValue;          // what-if capacity factor, alignment of padding, bytes of a token's row
  std::optional<OperandPlace> quant{};  // of QuantFrame figures; nullopt: the first quantized operand of the layer
};

// For imported runs "measured here" becomes "from the log".
Provenance provenance_in(const RunInfo& run, Provenance kind);

struct Explanation {
  const MetricInfo* info = nullptr;             // never nullptr
  Provenance kind = Provenance::measured_here;  // of this value, as provenance_in says
  std::string where;                            // "layer 2, expert 5, step 1,234"
  std::string expression;                       // "(96 - 64) / 64"; empty: there is no value here
  double value = kNoValue;                      // as the screen shows it
  std::string note;                             // what the numbers are
  struct Knob {
    std::string key, value;  // value empty: not known
  };
  std::vector<Knob> knobs;
};

Explanation explain_figure(const History& history, const FigureTarget& target);

}  // namespace moescope
