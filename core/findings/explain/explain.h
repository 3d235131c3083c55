// Explains a figure for the explain cards: its formula with the present values.
//
// The expression is plain arithmetic, + - * / ^ ( ) with ln, log10, exp, sqrt, cos, ceil, max, mean and median, and its
// value is the value on the screen (tests/core/findings/test_explain.cpp evaluates it). If a frame does not hold the
// values that a figure was computed from (a mean over tokens), the expression is the value itself; `note` describes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/config_field.h"
#include "core/frame/metrics.h"
#include "core/numerics/gemm_operand.h"
#include "core/recording/history/history.h"

namespace moescope {

// The figure to explain.
struct FigureTarget {
  FigureKey key;
  int layer = kWholeRun;  // kWholeRun: the run, or the mean over its layers
  int expert = -1;        // for array figures
  int other = -1;  // second index: domain, second expert, byte, GradientGroup; for an all-to-all 1: de-duplicated
  std::int64_t step = 0;                // the newest value at or before this step is explained
  bool uses_window = false;             // load, spread and entropy of it over the window of router_window.h
  std::int64_t reference = -1;          // step with which routing stability compares; -1: the previous routing
  double parameter = kNoValue;          // what-if capacity factor, alignment of padding, bytes of a token's row
  std::optional<OperandPlace> quant{};  // operand of QuantFrame figures; nullopt: first quantized operand of the layer
};

// Replaces "measured here" by "from the log" for imported runs.
Provenance provenance_in(const RunInfo& run, Provenance kind);

struct Explanation {
  const MetricInfo* info = nullptr;             // never nullptr
  Provenance kind = Provenance::measured_here;  // kind of this value after provenance_in()
  std::string place;                            // "layer 2, expert 5, step 1,234"
  std::string expression;                       // "(96 - 64) / 64"; empty: no value
  double value = kNoValue;                      // value on the screen
  std::string note;                             // meaning of the numbers
  struct Knob {
    std::string key, value;  // `value` is empty if not known
    std::string log_name;    // in the program that wrote the log
    bool settable = false;   // this program has the setting of this run, which another program's log only states
  };
  std::vector<Knob> knobs;
};

Explanation explain_figure(const History& history, const FigureTarget& target);

// Returns the letters and letters with an index in a formula, each once: "T", "n_e", "max_e", "s_" for s_(K).
std::vector<std::string> formula_letters(std::string_view formula);

// "T: tokens of the batch; E: routed experts of a layer". Leaves out letters that the formula itself explains.
std::string formula_legend(std::string_view formula);

}  // namespace moescope
