// Limit of the memory for the co-activation of experts, SpecialisationFrame::together_EE.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moescope {

// True if the tables of these layers together take at most 64 MiB. Larger ones are left out: 16,384 experts would need
// 1 GiB a layer, which no recording holds.
inline bool fits_coactivation(std::size_t layers, std::size_t experts) {
  constexpr std::size_t kMaxPairs = (std::size_t{64} << 20) / sizeof(std::uint32_t);
  return experts == 0 || layers <= kMaxPairs / experts / experts;
}

}  // namespace moescope
