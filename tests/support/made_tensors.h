// Made-up tensors that look like weights and activations.
#pragma once

#include <cmath>
#include <random>
#include <vector>

namespace moescope {

inline std::vector<float> gaussian(std::size_t count, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(generator);
  return values;
}

// Returns a Gaussian matrix, [rows, cols], with a factor per row and one outlier column, as in real weights.
inline std::vector<float> structured(std::size_t rows, std::size_t cols) {
  std::vector<float> values = gaussian(rows * cols);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) {
      values[r * cols + c] *= static_cast<float>(0.02 * std::exp2(std::sin(r * 0.05) * 2));
      if (c == 77 % cols) values[r * cols + c] *= 100;
    }
  return values;
}

}  // namespace moescope
