// Finds traces of experts that do not begin with the token with which the trace of the same text begins in another
// program. A trainer that replays such a trace gives every token the experts of another one, without an error.

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "core/files/text/words.h"
#include "core/logs/routing/routed_tokens.h"

namespace moescope {
namespace {

constexpr std::size_t kComparedTokens = 1024, kComparedLists = 16, kMinComparedTokens = 32;
constexpr double kMinShared = 0.5, kMinGain = 0.2;
constexpr int kMaxTraceShift = 64;  // tokens

struct TraceShift {
  int tokens = 0;  // row t + `tokens` of the trace belongs to token t: > 0: rows before it, as padding on the left
  double shared = 0, shared_unshifted = 0;  // shares of experts in common with the reference, with and without shift
};

using Rows = std::span<const std::uint16_t>;  // row-major [tokens, K]

struct RowsOfBoth {
  Rows reference, trace;
};

// The first lists of a sequence and layer that both have.
std::vector<RowsOfBoth> lists_of_both(const RoutedRows& reference, const RoutedRows& trace) {
  std::vector<RowsOfBoth> lists;
  for (const auto& [step, layers] : trace.steps) {
    const auto reference_step = reference.steps.find(step);
    if (reference_step == reference.steps.end()) continue;
    for (const auto& [layer, rows] : layers) {
      const auto found = reference_step->second.find(layer);
      if (found == reference_step->second.end()) continue;
      lists.push_back({found->second, rows});
      if (lists.size() == kComparedLists) return lists;
    }
  }
  return lists;
}

// Share of the experts of the reference that the trace has, too, `shift` tokens later; -1: too few tokens.
double shared_experts(std::span<const RowsOfBoth> lists, std::size_t top_k, int shift) {
  std::size_t shared = 0, chosen = 0, tokens = 0;
  std::vector<std::uint16_t> both;
  for (const auto& [reference, trace] : lists) {
    const std::size_t first = std::max(0, -shift), count = std::min(reference.size() / top_k, kComparedTokens);
    for (std::size_t token = first; token < count && (token + shift + 1) * top_k <= trace.size(); ++token) {
      const Rows a = chosen_of(reference.subspan(token * top_k, top_k));
      const Rows b = chosen_of(trace.subspan((token + shift) * top_k, top_k));
      both.clear();
      std::ranges::set_intersection(a, b, std::back_inserter(both));
      shared += both.size();
      chosen += std::max(a.size(), b.size());
      ++tokens;
    }
  }
  return tokens < kMinComparedTokens || chosen == 0 ? -1 : static_cast<double>(shared) / chosen;
}

// Compares the rows of sequences and layers that both have. Returns a shift if it makes at least half of the experts
// equal and at least a fifth more than without; nullopt if the rows fit as they are, fit nowhere, or are too few.
std::optional<TraceShift> trace_shift(const RoutedRows& reference, const RoutedRows& trace) {
  if (reference.top_k != trace.top_k || trace.top_k == 0) return std::nullopt;
  const std::vector<RowsOfBoth> lists = lists_of_both(reference, trace);
  TraceShift best;
  best.shared_unshifted = shared_experts(lists, trace.top_k, 0);
  best.shared = best.shared_unshifted;
  for (int distance = 1; distance <= kMaxTraceShift; ++distance)
    for (const int shift : {distance, -distance})
      if (const double shared = shared_experts(lists, trace.top_k, shift); shared > best.shared) {
        best.tokens = shift;
        best.shared = shared;
      }
  const bool is_shifted =
      best.tokens != 0 && best.shared >= kMinShared && best.shared >= std::max(0.0, best.shared_unshifted) + kMinGain;
  return is_shifted ? std::optional(best) : std::nullopt;
}

}  // namespace

void remark_shift(const ImportOptions& options, Imported& imported) {
  if (!options.routes || !imported.routes) return;
  const std::optional<TraceShift> shift = trace_shift(*options.routes, *imported.routes);
  if (!shift) return;
  const bool is_later = shift->tokens > 0;
  std::string text = "the routing is shifted against that of run A: its rows are " +
                     counted(std::abs(shift->tokens), "token", "tokens") + (is_later ? " later. " : " earlier. ") +
                     percent(shift->shared) + " of the experts are then those of run A, and " +
                     percent(std::max(0.0, shift->shared_unshifted)) + " as they are";
  if (is_later) text += ". Rows before the first token, as padding on the left, have this effect";
  Marker marker;
  marker.run = options.run;
  marker.kind = "event";
  marker.text = text;
  append_marker(*imported.runs.front(), options, marker);
  imported.remarks.push_back(std::move(text));
}

}  // namespace moescope
