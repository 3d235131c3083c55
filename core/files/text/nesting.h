// Limits the nesting in JSON and TOML of unknown origin: files, recordings, the network. Copying, printing and freeing
// a parsed text are recursive, so a small file of 100,000 brackets would overflow the stack. Nothing that the program
// reads is nested deeper than ten levels.
#pragma once

namespace moescope {

inline constexpr int kMaxNesting = 64;
inline constexpr const char* kNestingMessage = "nested more than 64 deep";

}  // namespace moescope
