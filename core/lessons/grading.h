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
  std::string output;  // why
};

struct GradedHandIn {
  std::string file, assignment, student;
  std::vector<GradeMark> marks;
  std::string problem;  // why it has no marks, or that the student has other hand-ins for the set; empty: none

  double score() const;
  double max_score() const;
};

// Grades each of these files. Equal runs of several hand-ins are trained once. `progress` as in RunPool::train().
std::vector<GradedHandIn> grade(std::span<const std::string> paths,
                                const std::function<void(int ended, int all)>& progress = {});
// Returns the results of one hand-in as Gradescope reads them, and a table with a row for each hand-in.
std::string gradescope_json(const GradedHandIn& graded);
ValueTable marks_table(std::span<const GradedHandIn> graded);

// Trains the runs of a hand-in and sets the hashes of their losses. Throws std::runtime_error if something is not
// filled in or not allowed, if a run diverges, or if it is no longer wanted. `progress` and `is_wanted` as in
// RunPool::train().
void fill_in_losses(
    HandIn& hand_in, const Assignment& assignment, const std::function<void(int ended, int all)>& progress = {},
    const std::function<bool()>& is_wanted = [] { return true; });
std::string losses_digest(const History& history);  // of the cross-entropy of all steps

}  // namespace moescope
