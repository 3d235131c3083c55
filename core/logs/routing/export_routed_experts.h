// Writes the experts of every token of a recorded text as inference engines return them (`routed_experts`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/recording/history/history.h"

namespace moescope {

struct RoutedText {
  std::string npy;  // int32 [tokens, layers, K], best expert first; 0 in dense layers
  std::size_t tokens = 0, layers = 0, top_k = 0;
  std::int64_t step = 0;
  TextKind kind = TextKind::probe;
};

// Uses the newest probe at or before `step`, else the newest sample or passage of the batch. Throws std::runtime_error
// if there is no routed text, or its layers have different numbers of experts per token.
RoutedText routed_text(const History& run, std::int64_t step);

}  // namespace moescope
