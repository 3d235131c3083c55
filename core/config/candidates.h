// How many candidates can be compared with one run.
#pragma once

#include <cstddef>

namespace moescope {

// More than can train beside it at once train in groups (core/training/engine/run_groups.h).
inline constexpr std::size_t kMaxCandidates = 16;

}  // namespace moescope
