// Tokens and flipped tokens by margin, summed over layers and steps, and the median of counts by magnitude.
#pragma once

#include <cmath>
#include <numeric>
#include <span>

#include "core/frame/frame.h"

namespace moescope {

struct MarginCounts {
  HalfOctaves tokens{}, flipped{};
  void add(const auto& frame) {  // a FlipFrame or a RouterRoundingFrame
    for (std::size_t bin = 0; bin < tokens.size(); ++bin) {
      tokens[bin] += frame.margin_tokens[bin];
      flipped[bin] += frame.margin_flipped[bin];
    }
  }
};

// Median as if the values of a bin were spread evenly over it; lower edge of the last bin, which has no upper one; NaN
// without counts.
inline double half_octave_median(std::span<const std::uint32_t> counts) {
  double counts_to_median = std::accumulate(counts.begin(), counts.end(), 0.0) / 2;
  if (counts_to_median == 0) return NAN;
  int bin = 0;
  while (counts[bin] < counts_to_median) counts_to_median -= counts[bin++];
  const double low = bin > 0 ? half_octave_edge(bin) : 0;
  return bin + 1 == std::ssize(counts) ? low : low + counts_to_median / counts[bin] * (half_octave_edge(bin + 1) - low);
}

}  // namespace moescope
