#include "core/logs/restart_rule.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "core/files/text/text_escape.h"

namespace moescope {

std::string restart_text(const Restart& restart) {
  const std::string first = std::to_string(restart.step), last = std::to_string(restart.last);
  const std::string steps = restart.step == restart.last ? "step " + first : "steps " + first + " to " + last;
  return "continues from step " + first + ": dropped " + steps + " of an earlier attempt";
}

// Returns the newest step of a key, without the steps that were dropped since. Of the cuts after the value was logged,
// the first has the lowest step.
std::int64_t RestartRule::kept_step(const Seen& position) const {
  const auto cut = std::ranges::upper_bound(cuts_, position.restarts, {}, &Cut::number);
  return cut == cuts_.end() ? position.step : std::min(position.step, cut->step - 1);
}

std::optional<Restart> RestartRule::go_back_to(std::int64_t step) {
  if (newest_ < step) return std::nullopt;
  const Restart restart{step, newest_};
  while (!cuts_.empty() && cuts_.back().step >= step) cuts_.pop_back();
  cuts_.push_back({step, ++restarts_});
  newest_ = step - 1;
  return restart;
}

std::string RestartRule::again_text() const {
  if (repeated_values_ == 0) return {};
  const std::string more =
      repeated_values_ > 1 ? fmt::format(" (and {} more such values)", repeated_values_ - 1) : std::string();
  return first_again_ + more + ": the last value of a step is shown";
}

std::optional<Restart> RestartRule::take(std::string_view key, std::int64_t step, std::span<const double> numbers) {
  std::size_t hash = numbers.size();
  for (const double number : numbers) hash = hash * 31 + std::hash<double>()(number);
  auto found = names_.find(key);
  if (found == names_.end()) found = names_.emplace(std::string(key), Seen{}).first;
  const std::int64_t before = kept_step(found->second);
  std::optional<Restart> restart;
  if (before == step && newest_ == step && repeated_values_++ == 0)
    first_again_ = fmt::format("step {}: \"{}\" was logged again", step, printable(std::string(key)));
  const bool is_changed = before == step && newest_ == step && found->second.hash != hash;
  if (is_changed && std::exchange(last_changed_, step) != step) ++changed_steps_;
  if (before > step || (before == step && newest_ > step)) restart = go_back_to(step);
  found->second = {restart ? step : std::max(before, step), restarts_, hash};
  newest_ = std::max(newest_, step);
  return restart;
}

}  // namespace moescope
