// How the steps of a run are counted where something is said to last: "hot for 400 steps".
//
// By their numbers, as a rule: of a log with a line every tenth step, 400 steps are 40 lines. Where the numbers are far
// apart, a step number is no step of the optimizer (it counts tokens, say) or far more than one lies between two lines,
// and 400 of them would be over with the next line: there the lines are counted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/history/history.h"

namespace moescope {

// Numbers for each step that the run has, on average, up to which numbers are counted.
inline constexpr std::int64_t kFarApart = 100;

// Of a run in which steps are counted by their numbers, all of them from the first to the last.
std::int64_t counted_steps(const History& history);
// Those up to the step `upto` of a run that may have been read from its middle on: the first has the number 0.
std::int64_t steps_taken(const History& history, std::int64_t upto);
// Positions, one after the other, for steps that may be far apart.
class StepAxis {
 public:
  // Takes in the steps that are new. False: they are counted in another way now, so that positions have changed.
  bool update(const History& history);
  void restart();

  StepRange positions() const { return positions_; }
  std::int64_t position(std::int64_t step) const;  // of the newest step at or before it
  std::int64_t step(std::int64_t position) const;
  StepRange steps(StepRange positions) const { return {step(positions.first), step(positions.last)}; }
  std::vector<std::int64_t> list(StepRange positions) const;

  std::string name(std::int64_t position) const;  // "8,000,000"
  std::string words(StepRange positions) const;   // "steps 40 to 90"

 private:
  StepRange positions_;
  bool far_apart_ = false;
  std::vector<std::int64_t> steps_;  // by position, where they are far apart
};

}  // namespace moescope
