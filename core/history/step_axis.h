// Counts the steps of a run for texts that say how long something lasts: "hot for 400 steps".
//
// Usually counts step numbers: in a log with a line for every tenth step, 400 steps are 40 lines. If the numbers are
// far apart, they do not count optimizer steps (but tokens, for example), or many steps pass between two lines. Two
// neighbouring lines could then be 400 numbers apart, so lines are counted instead.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/history/history.h"

namespace moescope {

// Step numbers are counted if they are, on average, at most this far apart.
inline constexpr std::int64_t kFarApart = 100;

// Returns the number of steps from the first to the last of the run; the number of lines if they are far apart.
std::int64_t counted_steps(const History& history);
// Returns the number of steps from step 0 to `upto`, even if the history begins later; the number of lines up to `upto`
// if they are far apart.
std::int64_t steps_taken(const History& history, std::int64_t upto);
// Gives the steps of a run, which may be far apart, consecutive positions.
class StepAxis {
 public:
  // Adds the new steps. Returns false if the way of counting changed, so that positions changed.
  bool update(const History& history);
  void restart();

  StepRange positions() const { return positions_; }
  std::int64_t position(std::int64_t step) const;  // position of the newest step at or before `step`
  std::int64_t step(std::int64_t position) const;
  StepRange steps(StepRange positions) const { return {step(positions.first), step(positions.last)}; }
  std::vector<std::int64_t> list(StepRange positions) const;

  std::string name(std::int64_t position) const;  // "8,000,000"
  std::string words(StepRange positions) const;   // "steps 40 to 90"

 private:
  StepRange positions_;
  bool far_apart_ = false;
  std::vector<std::int64_t> steps_;  // step of each position; empty unless steps are far apart
};

}  // namespace moescope
