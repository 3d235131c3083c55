// Indices of series colours with a meaning of their own.
#pragma once

namespace moescope {

inline constexpr int kNoiseSeries = -1;  // noise twins, whose curves are dashed

}  // namespace moescope
