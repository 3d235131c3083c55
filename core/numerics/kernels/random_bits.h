// Random bits as a pure function of (seed, stream, row, column), for stochastic rounding.
//
// Rows have a key of 64 mixed bits (SplitMix64's finalizer; Steele, Lea, Flood 2014). Columns have a key of 32 bits
// that does not depend on the run, so that tables of it can be kept. The draw is the upper 16 bits of (column ^ mask) *
// factor modulo 2^32 with an odd factor: multiply-shift hashing (Dietzfelbinger et al. 1997), uniform for every column
// and nearly independent for any two columns of a row.
#pragma once

#include <cstdint>

namespace moescope {

inline std::uint64_t mix_bits(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

struct RowKey {
  std::uint32_t factor, mask;
};

inline RowKey row_key(std::uint64_t seed, std::uint64_t stream, std::uint64_t row) {
  const std::uint64_t key = mix_bits(mix_bits(mix_bits(seed) ^ stream) ^ row);
  return {static_cast<std::uint32_t>(key) | 1, static_cast<std::uint32_t>(key >> 32)};
}

// Two rounds of multiply and xorshift.
inline std::uint32_t column_key(std::uint32_t column) {
  std::uint32_t h = (column ^ (column >> 16)) * 0x7FEB352D;
  h = (h ^ (h >> 15)) * 0x846CA68B;
  return h ^ (h >> 16);
}

}  // namespace moescope
