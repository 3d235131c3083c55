// All element formats and scale rules, and random values for tests of formats.
#pragma once

#include <array>
#include <limits>
#include <vector>

#include "core/numerics/float_formats.h"
#include "core/numerics/rng.h"
#include "core/numerics/scale_rules.h"

namespace moescope {

inline constexpr auto kEveryFormat = [] {
  std::array<ElementFormat, kNumElementFormats> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<ElementFormat>(i);
  return all;
}();
inline constexpr ScaleRule kEveryRule[] = {ScaleRule::floor, ScaleRule::rceil, ScaleRule::even, ScaleRule::ceil};
inline constexpr float kInf = std::numeric_limits<float>::infinity();

inline std::vector<float> normal_values(std::size_t n, double sigma = 1, std::int64_t seed = 1) {
  const RandomStream stream(seed, "test");
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(sigma * stream.normal(i));
  return values;
}

}  // namespace moescope
