#pragma once

namespace moescope {

// Beginning of the text of the event at step 0 that holds the loss gaps of a run with earlier seeds
// (core/findings/comparison/recorded_seeds.h). It is no mark and no note.
inline constexpr const char* kEarlierSeeds = "earlier seeds, gaps of the ";

}  // namespace moescope
