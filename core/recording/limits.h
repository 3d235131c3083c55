// Limits of an untrusted recording. Larger sizes mean a damaged file; within the limits allocations stay reasonable.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "core/files/sqlite.h"
#include "core/frame/frame.h"
#include "core/numerics/index.h"

namespace moescope {

inline constexpr std::int64_t kMaxLayers = 4096, kMaxExperts = 65536, kMaxRanks = 4096, kMaxLoadColumns = 1 << 20;
inline constexpr std::int64_t kMaxListed = 4096;  // MoE layers, or domains, of a run
inline constexpr int kLongestOfRun = 2 << 20;     // bytes of a text of a run

// Throws std::runtime_error "WHAT is VALUE, expected LOWEST to HIGHEST" if out of range.
inline int narrow(std::int64_t value, std::int64_t lowest, std::int64_t highest, const std::string& what) {
  if (value < lowest || value > highest)
    throw std::runtime_error(fmt::format("{} is {}, expected {} to {}", what, value, lowest, highest));
  return to_int(value);
}

// Throws std::runtime_error "WHERE..." if products of the sizes of a run are out of range. The writer asks before the
// first step of a run, so that nothing is computed that cannot be recorded.
inline void check_products(const RunInfo& info, const std::string& place) {
  narrow(std::ssize(info.moe_layers) * info.n_experts, 0, kMaxLoadColumns, place + "number of experts of all layers");
  // The slots by domain and expert are one value of 4 bytes each; half of the limit leaves room for the rest of a row.
  narrow(std::ssize(info.domains) * info.n_experts, 0, kLongestValue / 8, place + "number of domains times experts");
}

}  // namespace moescope
