// All element formats and scale rules, and random values for tests of formats.
#pragma once

#include <limits>
#include <vector>

#include "core/numerics/float_formats.h"
#include "core/numerics/rng.h"
#include "core/numerics/scale_rules.h"

namespace moescope {

inline constexpr ElementFormat kEveryFormat[] = {ElementFormat::e4m3, ElementFormat::e5m2, ElementFormat::e3m2,
                                                 ElementFormat::e2m3, ElementFormat::e2m1, ElementFormat::int8};
inline constexpr ScaleRule kEveryRule[] = {ScaleRule::floor, ScaleRule::rceil, ScaleRule::even, ScaleRule::ceil};
inline constexpr float kInf = std::numeric_limits<float>::infinity();

inline std::vector<float> normal_values(std::size_t n, double sigma = 1, std::int64_t seed = 1) {
  const RandomStream stream(seed, "test");
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(sigma * stream.normal(i));
  return values;
}

}  // namespace moescope
