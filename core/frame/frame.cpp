#include "core/frame/frame.h"

#include <cctype>

namespace moescope {
namespace {

// Shortens a value, because a probe text would fill the timeline.
std::string shortened(std::string text) {
  constexpr std::size_t kLongest = 48;
  if (text.size() <= kLongest) return text;
  std::size_t end = kLongest - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not within a UTF-8 sequence
  return text.substr(0, end) + "...";
}

std::string shown(std::string value) {
  return value.empty() ? "none" : value;
}

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

std::string phase_key(Phase phase) {
  std::string key = phase_name(phase);
  for (char& c : key) c = c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return key;
}

const RouterFrame* find_router(const TelemetryFrame* frame, int layer) {
  if (!frame) return nullptr;
  const auto found = std::ranges::find(frame->routers, layer, &RouterFrame::layer);
  return found == frame->routers.end() ? nullptr : &*found;
}

std::string change_text(std::string_view key, const std::string& before, const std::string& value, bool for_all_runs) {
  std::string text(key);
  text.append(" ").append(shown(shortened(before))).append(" -> ").append(shown(value));
  return for_all_runs ? text.append(" (for all runs, which read the same batches)") : text;
}

Marker change_marker(int run, std::int64_t step, std::string key, const std::string& before, std::string value,
                     bool for_all_runs) {
  std::string text = change_text(key, before, value, for_all_runs);
  return {run, step, kChangeKind, std::move(text), std::move(key), std::move(value)};
}

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
