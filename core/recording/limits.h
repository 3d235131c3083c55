// Limits of an untrusted recording. Larger sizes mean a damaged file; within the limits allocations stay reasonable.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace moescope {

inline constexpr std::int64_t kMaxLayers = 4096, kMaxExperts = 65536, kMaxRanks = 4096, kMaxLoadColumns = 1 << 20;

// Throws std::runtime_error "WHAT is VALUE, expected LOWEST to HIGHEST" if out of range.
inline int narrow(std::int64_t value, std::int64_t lowest, std::int64_t highest, const std::string& what) {
  if (value < lowest || value > highest) {
    throw std::runtime_error(what + " is " + std::to_string(value) + ", expected " + std::to_string(lowest) + " to " +
                             std::to_string(highest));
  }
  return static_cast<int>(value);
}

}  // namespace moescope
