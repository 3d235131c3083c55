#include "core/frame/token_spans.h"

#include <algorithm>

namespace moescope {
namespace {

// True if a byte has the experts and scores of the byte before it. NaN equals nothing, so that bytes without scores are
// tokens of their own.
bool routed_as_before(const TokenLayer& layer, std::size_t byte) {
  const std::ptrdiff_t top_k = layer.top_k;
  const auto is_same = [&](const auto& values) {
    const auto row = values.begin() + static_cast<std::ptrdiff_t>(byte) * top_k;
    return std::equal(row, row + top_k, row - top_k);
  };
  return is_same(layer.experts_TK) && is_same(layer.scores_TK);
}

}  // namespace

std::vector<TokenSpan> token_spans(const TokenFrame& text) {
  const bool has_losses = text.loss_T.size() == text.text.size() && !text.layers.empty() &&
                          !std::ranges::all_of(text.loss_T, [](float loss) { return is_missing(loss); });
  std::vector<TokenSpan> spans;
  for (std::size_t t = 0; t < text.text.size(); ++t) {
    const bool goes_on =
        t > 0 && has_losses && is_missing(text.loss_T[t]) &&
        std::ranges::all_of(text.layers, [t](const TokenLayer& layer) { return routed_as_before(layer, t); });
    if (!goes_on) spans.push_back({t, t});
    spans.back().end = t + 1;
  }
  return spans;
}

bool has_long_tokens(const std::vector<TokenSpan>& spans) {
  return std::ranges::any_of(spans, [](const TokenSpan& span) { return span.size() > 1; });
}

TokenSpan span_at(const std::vector<TokenSpan>& spans, std::size_t position) {
  return *std::prev(std::ranges::upper_bound(spans, position, {}, &TokenSpan::begin));
}

}  // namespace moescope
