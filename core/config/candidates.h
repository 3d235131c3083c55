// The number of candidates that can be compared with one run.
#pragma once

#include <cstddef>

namespace moescope {

// Candidates that cannot all train beside it at once train in groups (core/training/engine/run_groups.h).
inline constexpr std::size_t kMaxCandidates = 16;

}  // namespace moescope
