// Problem sets that are graded, and what a student hands in.
//
// A problem set is a lesson, assets/assignments/N-name.toml (built in), whose file has a further table:
//   [assignment]
//   preset = "nano"                      of the runs, for the command that trains them
//   [[assignment.own]]                   a run whose settings the student chooses: run = "C", may_set = [keys]
//   [[assignment.number]]                a figure that the student reads: value (a name of [step.values]), question,
//                                        within (largest relative error), marks; shares are asked for in %
// A prediction of a step gives half a mark when it is made, and half a mark when it is right, which the checks of given
// runs confirm. The runs give a mark when the losses of each are those of its settings. A run that the student sets
// gives two marks for each of its checks if all of them hold: they limit each other. The runs take the steps of the
// last run_until task; their seed follows from the student's name. Their products are portable, as those of all
// lessons, so that every machine computes the same bits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/lessons/lesson.h"

namespace moescope {

struct AssignmentNumber {
  std::string value, question;
  std::size_t step = 0;  // whose [step.values] it is among
  LessonFigure figure;
  double within = 0;
  int marks = 1;
};

struct Assignment {
  Lesson lesson;
  std::string preset;
  std::int64_t steps = 0;                       // of each run
  std::map<int, std::vector<Setting>> may_set;  // by the index of a run that the student sets
  std::vector<AssignmentNumber> numbers;
};

struct ParsedAssignment {
  Assignment assignment;
  std::vector<ConfigProblem> problems;
};
ParsedAssignment parse_assignment(std::string_view toml, std::string_view file_name, std::int64_t seed);
std::vector<std::string> assignment_names();
// Reads a built-in problem set by name or number ("2").
ParsedAssignment find_assignment(std::string_view name, std::int64_t seed);

inline constexpr int kCheckMarks = 2;
// Returns what a run that the student sets must reach.
std::vector<LessonCheck> aims(const Assignment& assignment, int run);
int max_marks(const Assignment& assignment);

// Returns the name as forms and hand-ins have it: "ada-lovelace" for " Ada  Lovelace". The functions below read both.
std::string student_name(std::string_view typed);
// Returns the seed of a student's runs, 1 to 1,000,000.
std::int64_t seed_of_student(std::string_view student);
// Returns why a student cannot have this name, which becomes a part of tables; empty if it is allowed.
std::string student_problem(std::string_view student);

// A file with a student's work. A step or run that is missing in a map has no entry in the file.
struct HandIn {
  std::string assignment, student;
  std::int64_t seed = 0;
  std::map<int, double> predictions;      // by the index of the step: a number, or that of a choice, 1 for the first
  std::map<std::string, double> answers;  // by AssignmentNumber::value
  std::map<int, std::vector<LessonSetting>> settings;  // by the index of the run
  std::map<int, std::string> losses;                   // by the index of the run: losses_digest()
};

struct ParsedHandIn {
  HandIn hand_in;
  std::vector<ConfigProblem> problems;
};
// Reads what is known; "?" stands for what the student has not filled in yet. Checks names and types; not whether the
// problem set has these questions.
ParsedHandIn parse_hand_in(std::string_view toml, std::string_view file_name);
ParsedHandIn load_hand_in(const std::string& path);
std::string to_toml(const HandIn& hand_in);
// Returns the form of a problem set for a student to fill in: a hand-in without answers, with the questions as
// comments.
std::string hand_in_form(const Assignment& assignment, const std::string& student);

// Returns what the hand-in lacks or has too much for this problem set; the losses may be missing.
std::vector<std::string> hand_in_problems(const HandIn& hand_in, const Assignment& assignment);
// Returns the runs of a hand-in: the set's, with the student's settings.
std::vector<RunConfig> hand_in_runs(const HandIn& hand_in, const Assignment& assignment);

inline char run_letter(int run) {
  return static_cast<char>('A' + run);
}

}  // namespace moescope
