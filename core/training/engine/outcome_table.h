// The table of outcomes as a file, with the same columns in the window and on the command line.
#pragma once

#include <span>
#include <string>

#include "core/training/engine/outcomes.h"

namespace moescope {

// A column of figures; the key contains the unit. kNoValue: not known.
struct OutcomeFigure {
  const char* key;
  float (*value)(const Outcome&);
};
std::span<const OutcomeFigure> outcome_figures();

std::string underflow_place(const Outcome& outcome);  // operand of the underflow; empty: not measured
std::string sqnr_place(const Outcome& outcome);       // operand of the worst SQNR; empty: nothing is quantized
std::string judged_loss(const Outcome& outcome);      // "validation loss", "training loss"; empty: not judged yet

// Returns CSV (RFC 4180) with a header; cells of unknown figures are empty.
std::string outcomes_csv(std::span<const Outcome> outcomes);

}  // namespace moescope
