#include "core/recording/history/step_axis.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace moescope {

std::string steps_text(const History& history) {
  const bool all = history.count() == history.steps().size();
  return counted(history.count(), all ? "step" : "logged step", all ? "steps" : "logged steps");
}

void StepAxis::restart() {
  positions_ = {};
  anchors_.clear();
  last_step_ = -1;
}

void StepAxis::update(const History& history) {
  const StepRange steps = history.steps();
  if (history.truncations() != truncations_ || (!anchors_.empty() && anchors_.front().step != steps.first)) restart();
  truncations_ = history.truncations();
  if (steps.empty()) return;
  const std::int64_t first = anchors_.empty() ? steps.first : last_step_ + 1;
  for (const std::int64_t step : history.steps_in({first, steps.last})) add(step);
}

void StepAxis::add(std::int64_t step) {
  const std::int64_t gap = step - last_step_;
  if (anchors_.empty()) {
    anchors_.push_back({step, step});
    positions_ = {step, step};
  } else {
    positions_.last += std::min(gap, kLongestGap);
    if (gap > kLongestGap) anchors_.push_back({positions_.last, step});
  }
  last_step_ = step;
}

std::int64_t StepAxis::position(std::int64_t step) const {
  const auto next = std::ranges::upper_bound(anchors_, step, {}, &Anchor::step);
  if (next == anchors_.begin()) return step;
  const Anchor& anchor = *std::prev(next);
  const std::int64_t position = anchor.position + (step - anchor.step);
  return next == anchors_.end() ? position : std::min(position, next->position - 1);
}

std::int64_t StepAxis::step(std::int64_t position) const {
  const auto next = std::ranges::upper_bound(anchors_, position, {}, &Anchor::position);
  if (next == anchors_.begin()) return position;
  const Anchor& anchor = *std::prev(next);
  return anchor.step + (position - anchor.position);
}

std::int64_t StepAxis::line(std::int64_t position) const {
  const auto next = std::ranges::upper_bound(anchors_, position, {}, &Anchor::position);
  return step(next == anchors_.end() ? position : std::min(position, next->position - kLongestGap));
}

std::vector<std::int64_t> StepAxis::list(StepRange positions) const {
  std::vector<std::int64_t> steps(positions.size());
  std::iota(steps.begin(), steps.end(), positions.first);
  for (std::int64_t& listed_step : steps) listed_step = step(listed_step);
  return steps;
}

}  // namespace moescope
