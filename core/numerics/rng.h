// Counter-based random numbers: the n-th number of a stream is a pure function of (seed, purpose, n).
//
// Each purpose, for example each weight tensor, has a stream of its own, so that other draws of the program do not
// change its numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "core/numerics/elementary.h"

namespace moescope {

// Random bits as a pure function of (seed, stream, row, column), for stochastic rounding.
//
// Rows have a key of 64 mixed bits (SplitMix64's finalizer; Steele, Lea, Flood 2014). Columns have a key of 32 bits
// that does not depend on the run, so that tables of it can be kept. The draw is the upper 16 bits of (column ^ mask) *
// factor modulo 2^32 with an odd factor: multiply-shift hashing (Dietzfelbinger et al. 1997), uniform for every column
// and nearly independent for any two columns of a row.
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

class RandomStream {
 public:
  RandomStream(std::int64_t seed, std::string_view purpose) : key_(mix_bits(seed)) {
    for (const char c : purpose) key_ = mix_bits(key_ ^ static_cast<unsigned char>(c));
  }

  std::uint64_t bits(std::uint64_t n) const { return mix_bits(mix_bits(n + kWeyl) ^ key_); }
  double uniform(std::uint64_t n) const { return (bits(n) >> 11) * 0x1p-53; }  // [0, 1)

  // Normal distribution with mean 0 and standard deviation 1 (Box-Muller).
  double normal(std::uint64_t n) const {
    const double radius = std::sqrt(-2.0 * ordered_log(1.0 - uniform(2 * n)));
    return radius * ordered_cos(2.0 * std::numbers::pi * uniform(2 * n + 1));
  }

  // Normal distribution, drawn again while outside of +-cut.
  double truncated_normal(std::uint64_t n, double cut) const {
    for (std::uint64_t attempt = 0;; ++attempt) {
      const double value = normal(n + (attempt << 40));
      if (std::fabs(value) <= cut) return value;
    }
  }

 private:
  static constexpr std::uint64_t kWeyl = 0x9E3779B97F4A7C15;
  std::uint64_t key_;
};

}  // namespace moescope
