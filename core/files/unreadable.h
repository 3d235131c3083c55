// Error in a line of a log or in a record. The reader catches it, counts the line and goes on.
#pragma once

#include <stdexcept>
#include <string>

namespace moescope {

struct Unreadable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Limits the nesting in JSON and TOML of unknown origin: files, recordings, the network. Copying, printing and freeing
// a parsed text are recursive, so a small file of 100,000 brackets would overflow the stack. Nothing that the program
// reads is nested deeper than ten levels.
inline constexpr int kMaxNesting = 64;
inline constexpr const char* kNestingMessage = "nested more than 64 deep";

struct FileProblem {
  std::string file;  // empty if the text did not come from a file
  int line = 0;      // from 1; 0 if unknown
  std::string key;
  std::string message;       // "top_k is 20, but there are 16 experts: choose 1 to 16"
  std::string text() const;  // "run.toml:12: router.top_k: ..."
};

}  // namespace moescope
