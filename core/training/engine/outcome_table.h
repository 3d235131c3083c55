// The table of outcomes in files: the same columns from the window and from the command line.
#pragma once

#include <span>
#include <string>

#include "core/training/engine/outcomes.h"

namespace moescope {

// A column of figures; the unit is in the key. kNoValue: not known.
struct OutcomeFigure {
  const char* key;
  float (*value)(const Outcome&);
};
std::span<const OutcomeFigure> outcome_figures();

std::string underflow_place(const Outcome& outcome);  // the operand of its underflow; empty: none was measured
std::string sqnr_place(const Outcome& outcome);       // that of its worst SQNR; empty: nothing is quantized
std::string judged_loss(const Outcome& outcome);      // "validation loss", "training loss"; empty: none yet

// RFC 4180, with a header; cells of figures that are not known are empty.
std::string outcomes_csv(std::span<const Outcome> outcomes);

}  // namespace moescope
