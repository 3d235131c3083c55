// Marks for hand-ins. Every run is trained again; a hash of other losses than these gives no marks for what the run
// shows.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/files/text/value_table.h"
#include "core/lessons/assignment.h"
#include "core/recording/history/history.h"

namespace moescope {

struct GradeMark {
  std::string name;
  double score = 0, max_score = 0;
  std::string output;    // why
  std::string column{};  // of the table of marks, which is the key of the hand-in: "step_1", "C"
};

struct GradedHandIn {
  std::string file, assignment, student;
  std::vector<GradeMark> marks;
  std::string problem;  // why it has no marks, or that the student has other hand-ins for the set; empty: none
  bool counts = true;   // it is the only hand-in of its student for the set, or the newest file

  double sum(double GradeMark::*part) const;
  double score() const { return sum(&GradeMark::score); }
  double max_score() const { return sum(&GradeMark::max_score); }
};

// Grades each of these files. Equal runs of several hand-ins are trained once. `progress` as in RunPool::train().
std::vector<GradedHandIn> grade(std::span<const std::string> paths,
                                const std::function<void(int ended, int all)>& progress = {});
// Returns the results of one hand-in as Gradescope reads them, and a table with a row for each hand-in, which may have
// a column for each mark.
std::string gradescope_json(const GradedHandIn& graded);
ValueTable marks_table(std::span<const GradedHandIn> graded, bool with_each_mark);

// Trains the runs of a hand-in and sets the hashes of their losses. Throws std::runtime_error if something is not
// filled in or not allowed, if a run diverges, or if it is no longer wanted. `progress` and `is_wanted` as in
// RunPool::train().
void fill_in_losses(
    HandIn& hand_in, const Assignment& assignment, const std::function<void(int ended, int all)>& progress = {},
    const std::function<bool()>& is_wanted = [] { return true; });
std::string losses_digest(const History& history);  // of the cross-entropy of all steps

}  // namespace moescope
