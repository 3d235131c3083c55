// Counter-based random numbers: the n-th number of a stream is a pure function of (seed, purpose, n).
//
// Each purpose, for example each weight tensor, has a stream of its own, so that other draws of the program do not
// change its numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "core/numerics/kernels/random_bits.h"

namespace moescope {

class RandomStream {
 public:
  RandomStream(std::int64_t seed, std::string_view purpose) : key_(mix_bits(seed)) {
    for (const char c : purpose) key_ = mix_bits(key_ ^ static_cast<unsigned char>(c));
  }

  std::uint64_t bits(std::uint64_t n) const { return mix_bits(mix_bits(n + kWeyl) ^ key_); }
  double uniform(std::uint64_t n) const { return (bits(n) >> 11) * 0x1p-53; }  // [0, 1)

  // Normal distribution with mean 0 and standard deviation 1 (Box-Muller).
  double normal(std::uint64_t n) const {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform(2 * n)));
    return radius * std::cos(2.0 * std::numbers::pi * uniform(2 * n + 1));
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
