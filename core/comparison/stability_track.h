// Routing stability over time: compares every kept routing of the probe text with an earlier one of the same text.
#pragma once

#include <cstdint>
#include <vector>

#include "core/history/history.h"

namespace moescope {

// Which earlier routing each step is compared with.
struct EarlierStep {
  enum class Kind { steps_before, half_way, at };
  Kind kind = Kind::steps_before;
  std::int64_t steps = 100;  // steps_before: how many; at: which
  std::int64_t of(std::int64_t step) const;
  bool operator==(const EarlierStep&) const = default;
};

// kNoValue where a layer cannot be compared: another text or top_k then.
struct StabilityPoint {
  std::int64_t step = 0, reference = 0;      // that were routed
  std::vector<float> unchanged_L, shared_L;  // unchanged_choices and routing_stability, per layer of the track
  std::uint64_t ordinal = 0;                 // its place among all that were taken in
  float value(bool whole_sets, std::size_t i) const { return (whole_sets ? unchanged_L : shared_L)[i]; }
};

class StabilityTrack {
 public:
  // More than a screen shows; beyond it old points are thinned (thinning.h).
  static constexpr std::size_t kMaxPoints = 4096;

  explicit StabilityTrack(EarlierStep earlier = {}) : earlier_(earlier) {}

  // Adds at most `at_most` new routings; starts again if the run was rewound. True: there are more. Unpacks two routed
  // texts for each, so it is too slow for the GUI thread.
  bool update(const History& history, int at_most);
  bool behind(const History& history) const;  // whether update() has something to do

  const EarlierStep& earlier() const { return earlier_; }
  const std::vector<int>& layers() const { return layers_; }
  // Steps rise. A step without an earlier routing to compare with has none, nor one that was thinned away.
  const std::vector<StabilityPoint>& points() const { return points_; }
  const StabilityPoint* at(std::int64_t step) const;  // the newest at or before it, nullptr: none
  std::int64_t looked() const { return looked_; }     // the last step whose routing was read; -1: none

 private:
  void thin();

  EarlierStep earlier_;
  std::vector<int> layers_;
  std::vector<StabilityPoint> points_;
  std::uint64_t taken_ = 0;
  std::int64_t looked_ = -1;
  std::uint64_t truncations_ = 0;
};

}  // namespace moescope
