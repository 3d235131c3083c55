// Random bits as a pure function of (seed, stream, row, column): the source of stochastic rounding.
//
// A row has 64 bits of key; a column costs two 32-bit multiplications, which vectorise. The mixing is that of
// SplitMix64's finalizer (Steele, Lea, Flood 2014) for keys, and two multiply-xorshift rounds for columns.
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
  std::uint32_t a, b;
};

inline RowKey row_key(std::uint64_t seed, std::uint64_t stream, std::uint64_t row) {
  const std::uint64_t key = mix_bits(mix_bits(mix_bits(seed) ^ stream) ^ row);
  return {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

// `Word`: std::uint32_t, or a vector of them.
template <class Word>
[[gnu::always_inline]] inline Word column_bits(RowKey key, Word column) {
  Word h = column + key.a;
  h = (h ^ (h >> 16)) * 0x7FEB352D;
  h = (h ^ (h >> 15) ^ key.b) * 0x846CA68B;
  return h ^ (h >> 16);
}

}  // namespace moescope
