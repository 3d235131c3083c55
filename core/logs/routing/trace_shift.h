// Finds traces of experts that do not begin with the token with which the trace of the same text begins in another
// program. A trainer that replays such a trace gives every token the experts of another one, without an error.
#pragma once

#include <optional>

#include "core/logs/routing/routed_tokens.h"

namespace moescope {

inline constexpr int kMaxTraceShift = 64;  // tokens

struct TraceShift {
  int tokens = 0;  // row t + `tokens` of the trace belongs to token t: > 0: rows before it, as padding on the left
  double shared = 0, shared_unshifted = 0;  // shares of experts in common with the reference, with and without shift
};

// Compares the rows of sequences and layers that both have. Returns a shift if it makes at least half of the experts
// equal and at least a fifth more than without; nullopt if the rows fit as they are, fit nowhere, or are too few.
std::optional<TraceShift> trace_shift(const RoutedRows& reference, const RoutedRows& trace);
// Says in a remark and in an event of the run that its trace is shifted against options.routes; nothing if it is not.
void remark_shift(const ImportOptions& options, Imported& imported);

}  // namespace moescope
