#include "core/frame/change_marker.h"

#include <algorithm>
#include <array>

namespace moescope {
namespace {

constexpr std::string_view kArrow = " -> ";
constexpr std::string_view kForAll = " (for all runs, which read the same batches)";
constexpr std::string_view kEmptyText = "none";  // an empty text

// Settings that are texts without fixed choices, of which alone "none" means the empty one. No later ones: since format
// 6 of recordings the value is stored.
constexpr std::array<std::string_view, 5> kTexts = {"router.killed_experts", "router.pinned_bias", "precision.operands",
                                                    "data.mixture", "telemetry.probe"};

// A probe text would fill the timeline.
std::string shortened(std::string text) {
  constexpr std::size_t kLongest = 48;
  if (text.size() <= kLongest) return text;
  std::size_t end = kLongest - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not within a UTF-8 sequence
  return text.substr(0, end) + "...";
}

std::string shown(std::string value) {
  return value.empty() ? std::string(kEmptyText) : value;
}

}  // namespace

std::string change_text(std::string_view key, const std::string& before, const std::string& value, bool for_all_runs) {
  std::string text(key);
  text.append(" ").append(shown(shortened(before))).append(kArrow).append(shown(value));
  return for_all_runs ? text.append(kForAll) : text;
}

Marker change_marker(int run, std::int64_t step, std::string key, const std::string& before, std::string value,
                     bool for_all_runs) {
  std::string text = change_text(key, before, value, for_all_runs);
  return {run, step, kChangeKind, std::move(text), std::move(key), std::move(value)};
}

void read_change_text(Marker& marker) {
  const std::string_view text = marker.text;
  const auto space = text.find(' '), arrow = text.find(kArrow);
  if (marker.kind != kChangeKind || space == text.npos || arrow == text.npos) return;
  std::string_view value = text.substr(arrow + kArrow.size());
  value = value.substr(0, value.find(kForAll));
  marker.key = text.substr(0, space);
  if (value != kEmptyText || std::ranges::find(kTexts, marker.key) == kTexts.end()) marker.value = value;
}

}  // namespace moescope
