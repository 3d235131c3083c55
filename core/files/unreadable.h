// What readers of files of unknown origin have in common: their errors, and the limit of nesting.
#pragma once

#include <stdexcept>
#include <string>

namespace moescope {

// Throws std::runtime_error "PLACE: REASON".
[[noreturn]] inline void refuse(const std::string& place, const std::string& reason) {
  throw std::runtime_error(place + ": " + reason);
}

// Error in a line of a log or in a record. The reader catches it, counts the line and goes on.
struct Unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A problem in a text: its place, and what is allowed.
struct FileProblem {
  std::string file;  // empty if the text did not come from a file
  int line = 0;      // from 1; 0 if unknown
  std::string key;
  std::string message;       // "top_k is 20, but there are 16 experts: choose 1 to 16"
  std::string text() const;  // "run.toml:12: router.top_k: ..."
};

// Limits the nesting in JSON and TOML of unknown origin: files, recordings, the network. Copying, printing and freeing
// a parsed text are recursive, so a small file of 100,000 brackets would overflow the stack. Nothing that the program
// reads is nested deeper than ten levels.
inline constexpr int kMaxNesting = 64;
inline constexpr const char* kNestingMessage = "nested more than 64 deep";

}  // namespace moescope
