// The limit on nesting in JSON and TOML of unknown origin: files, recordings, the network. What copies, prints or frees
// a parsed text recurses, so a small file of 100,000 brackets would overflow the stack. Nothing that the program reads
// is nested deeper than ten.
#pragma once

namespace moescope {

inline constexpr int kMaxNesting = 64;
inline constexpr const char* kTooDeep = "nested more than 64 deep";

}  // namespace moescope
