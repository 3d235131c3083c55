#include "core/history/step_axis.h"

#include <algorithm>
#include <numeric>

#include "core/io/words.h"

namespace moescope {

namespace {

bool are_far_apart(StepRange steps, std::int64_t count) {
  return count > 1 && steps.size() / count > kFarApart;
}

}  // namespace

std::int64_t counted_steps(const History& history) {
  const StepRange steps = history.steps();
  const std::int64_t count = history.count();
  return are_far_apart(steps, count) ? count : steps.size();
}

std::int64_t steps_taken(const History& history, std::int64_t upto) {
  if (!are_far_apart(history.steps(), history.count())) return upto + 1;
  return std::ssize(history.steps_in({history.steps().first, upto}));
}

void StepAxis::restart() {
  positions_ = {};
  steps_.clear();
}

bool StepAxis::update(const History& history) {
  const StepRange steps = history.steps();
  const bool far_apart = are_far_apart(steps, history.count());
  const bool same = far_apart == far_apart_;
  if (!same) restart();
  far_apart_ = far_apart;
  if (!far_apart_) {
    positions_ = steps;
    return same;
  }
  const std::int64_t known = steps_.empty() ? steps.first : steps_.back() + 1;
  const std::vector<std::int64_t> more = history.steps_in({known, steps.last});
  steps_.insert(steps_.end(), more.begin(), more.end());
  positions_ = {0, static_cast<std::int64_t>(steps_.size()) - 1};
  return same;
}

std::int64_t StepAxis::position(std::int64_t step) const {
  if (!far_apart_) return step;
  return std::ranges::upper_bound(steps_, step) - steps_.begin() - 1;
}

std::int64_t StepAxis::step(std::int64_t position) const {
  if (!far_apart_ || steps_.empty()) return position;
  return steps_[static_cast<std::size_t>(std::clamp<std::int64_t>(position, 0, std::ssize(steps_) - 1))];
}

std::vector<std::int64_t> StepAxis::list(StepRange positions) const {
  std::vector<std::int64_t> steps(static_cast<std::size_t>(positions.size()));
  std::iota(steps.begin(), steps.end(), positions.first);
  for (std::int64_t& each : steps) each = step(each);
  return steps;
}

std::string StepAxis::name(std::int64_t position) const {
  return grouped(step(position));
}

std::string StepAxis::words(StepRange positions) const {
  return steps_in_words(step(positions.first), step(positions.last));
}

}  // namespace moescope
