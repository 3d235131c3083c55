// Positions of the steps of a run for the watches, and the number of steps of a run in words.
//
// A position is usually the step number itself. Where the numbers of two lines are further apart than kLongestGap,
// their positions are only kLongestGap apart: such numbers may not count optimizer steps (but tokens, for example), and
// reading must not loop over all numbers in between.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/files/text/words.h"
#include "core/recording/history/history.h"

namespace moescope {

inline constexpr std::int64_t kLongestGap = 10;  // positions from a line to the next one

// Returns "200 steps"; "70 logged steps" if there are steps between them that were not logged.
std::string steps_text(const History& history);

class StepAxis {
 public:
  void update(const History& history);  // adds the new steps, and forgets those that the history has forgotten
  void restart();

  StepRange positions() const { return positions_; }
  // Returns the position of a step; for a step between two lines, a position between theirs.
  std::int64_t position(std::int64_t step) const;
  std::int64_t step(std::int64_t position) const;  // a step without a line for a position between two lines
  // Returns the step of the line at the position, or before it if it is in a gap of more than kLongestGap steps.
  std::int64_t line(std::int64_t position) const;
  StepRange steps(StepRange positions) const { return {line(positions.first), line(positions.last)}; }
  std::vector<std::int64_t> list(StepRange positions) const;

  std::string name(std::int64_t position) const { return grouped(line(position)); }  // "8,000,000"
  // Returns "steps 40 to 90".
  std::string words(StepRange positions) const { return steps_in_words(line(positions.first), line(positions.last)); }

 private:
  // Line from which on positions and step numbers rise by the same amounts, up to the next such line.
  struct Anchor {
    std::int64_t position, step;
  };
  void add(std::int64_t step);

  StepRange positions_;
  std::vector<Anchor> anchors_;
  std::int64_t last_step_ = -1;
  std::uint64_t truncations_ = 0;
};

}  // namespace moescope
