#include "core/frame/change_marker.h"

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

}  // namespace

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

}  // namespace moescope
