#include "core/findings/comparison/stability_track.h"

#include <algorithm>
#include <span>

#include "core/frame/specialisation.h"
#include "core/frame/thinning.h"

namespace moescope {

bool StabilityTrack::update(const History& history, int at_most) {
  if (const std::uint64_t truncations = history.truncations(); truncations != truncations_) {
    *this = StabilityTrack(earlier_);
    truncations_ = truncations;
  }
  const std::vector<std::int64_t> steps = history.text_steps(TextKind::probe);
  std::shared_ptr<const TokenFrame> older;  // kept, so that a fixed reference is unpacked only once
  std::int64_t then_step = -1;
  for (auto next = std::ranges::upper_bound(steps, looked_); next != steps.end(); ++next) {
    if (at_most-- <= 0) return true;
    looked_ = *next;
    const auto reference = std::ranges::upper_bound(steps, earlier_.reference_step(*next));
    if (reference == steps.begin() || *std::prev(reference) == *next) continue;
    std::int64_t step = *next;
    const auto newer = history.text_at(TextKind::probe, step);
    if (!older || then_step != *std::prev(reference)) {
      then_step = *std::prev(reference);
      older = history.text_at(TextKind::probe, then_step);
    }
    if (!newer || !older || step != *next) continue;  // the run was rewound in the meantime
    if (layers_.empty())
      for (const TokenLayer& layer : newer->layers) layers_.push_back(layer.layer);
    StabilityPoint& point = points_.emplace_back(StabilityPoint{step, then_step, {}, {}});
    for (const int layer : layers_) {
      point.unchanged_L.push_back(unchanged_choices(*newer, *older, layer));
      point.shared_L.push_back(routing_stability(*newer, *older, layer));
    }
    point.ordinal = point_count_++;
    if (points_.size() > kMaxPoints) thin();
  }
  return false;
}

void StabilityTrack::thin() {
  const std::size_t half_count = points_.size() / 2;
  const int level = finest_level(std::span<const StabilityPoint>(points_).first(half_count));
  if (level < 0) return;
  const auto older = points_.begin() + half_count;
  points_.erase(std::remove_if(points_.begin(), older, [&](const auto& p) { return is_dropped(p.ordinal, level); }),
                older);
}

bool StabilityTrack::behind(const History& history) const {
  if (history.truncations() != truncations_) return true;
  const std::vector<std::int64_t> steps = history.text_steps(TextKind::probe);
  return !steps.empty() && steps.back() > looked_;
}

const StabilityPoint* StabilityTrack::at(std::int64_t step) const {
  const auto after = std::ranges::upper_bound(points_, step, {}, &StabilityPoint::step);
  return after == points_.begin() ? nullptr : &*std::prev(after);
}

}  // namespace moescope
