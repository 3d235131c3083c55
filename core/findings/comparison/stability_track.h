// Routing stability over time: compares every kept routing of the probe text with an earlier routing of the same text.
#pragma once

#include <cstdint>
#include <vector>

#include "core/recording/history/history.h"

namespace moescope {

// Selects the earlier routing that each step is compared with.
struct EarlierStep {
  enum class Kind { steps_before, half_way, at };
  Kind kind = Kind::steps_before;
  std::int64_t steps = 100;  // steps_before: how many steps earlier; at: the step itself
  std::int64_t reference_step(std::int64_t step) const {
    if (kind == Kind::half_way) return step / 2;
    if (kind == Kind::at) return steps;
    return step - steps;
  }
  bool operator==(const EarlierStep&) const = default;
};

// Values are kNoValue for layers that cannot be compared, because the text or top_k differs.
struct StabilityPoint {
  std::int64_t step = 0, reference = 0;      // steps of the two routings
  std::vector<float> unchanged_L, shared_L;  // unchanged_choices and routing_stability, per layer of the track
  std::uint64_t ordinal = 0;                 // number of the routing in the order of arrival
  float value(bool whole_sets, std::size_t i) const { return (whole_sets ? unchanged_L : shared_L)[i]; }
};

class StabilityTrack {
 public:
  // More points than a screen shows; beyond this number old points are thinned (thinning.h).
  static constexpr std::size_t kMaxPoints = 4096;

  explicit StabilityTrack(EarlierStep earlier = {}) : earlier_(earlier) {}

  // Adds at most `at_most` new routings; starts again if the run was rewound. Returns true if more are left. Too slow
  // for the GUI thread: unpacks two routed texts for each routing.
  bool update(const History& history, int at_most);
  bool behind(const History& history) const;  // true if update() has new routings to add

  const EarlierStep& earlier() const { return earlier_; }
  const std::vector<int>& layers() const { return layers_; }
  // Returns the points in the order of their steps. Steps without an earlier routing and thinned steps have no point.
  const std::vector<StabilityPoint>& points() const { return points_; }
  const StabilityPoint* at(std::int64_t step) const;  // newest point at or before `step`; nullptr: none
  std::int64_t looked() const { return looked_; }     // last step whose routing was read; -1: none

 private:
  void thin();

  EarlierStep earlier_;
  std::vector<int> layers_;
  std::vector<StabilityPoint> points_;
  std::uint64_t point_count_ = 0;
  std::int64_t looked_ = -1;
  std::uint64_t truncations_ = 0;
};

}  // namespace moescope
