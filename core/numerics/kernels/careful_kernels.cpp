#include "core/numerics/kernels/careful_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/numerics/kernels/lane_sums.h"

namespace moescope {
namespace {

constexpr std::size_t kWidth = kLanes<float>;

// Sixteen at a time wherever they lie.
template <Way kWay>
MOESCOPE_INLINE Totals wide_totals(const Scaling& s, const Tile& t, float encode, float decode) {
  Totals totals;
  const LaneRounding f = lane_rounding(s.rounding);
  const std::size_t elements = t.rows * t.cols;
  for (std::size_t first = 0; first < elements; first += kWidth) {
    const std::size_t n = std::min(kWidth, elements - first);
    Floats x{};
    Words draws{};
    for (std::size_t l = 0; l < n; ++l) {
      const std::size_t r = (first + l) / t.cols, c = (first + l) % t.cols;
      x[l] = t.x[r * t.stride + c];
      if constexpr (is_stochastic(kWay)) draws[l] = draw_bits(row_key_of<kWay>(t, r), t.column_keys[c]);
    }
    const Quantized v = quantize_lanes<kWay>(f, x, splat(encode), splat(decode), draws);
    for (std::size_t l = 0; l < n; ++l) {
      const std::size_t r = (first + l) / t.cols, c = (first + l) % t.cols;
      t.out[r * t.out_stride + c] = v.value[l];
      const double magnitude = std::fabs(x[l]), q = std::fabs(v.value[l]);
      totals.x2 += magnitude * magnitude;
      totals.q2 += q * q;
      totals.xq += magnitude * q;
      totals.err2 += (magnitude - q) * (magnitude - q);
      totals.nonzero += magnitude != 0;
      totals.underflow += magnitude != 0 && v.r[l] == 0;
      totals.clipped += v.y[l] > s.clip_limit;
    }
  }
  return totals;
}

}  // namespace

Totals wide_totals(const Scaling& s, const Tile& t, float encode, float decode) {
  switch (way_of(s.format, true)) {
    case Way::divided:
      return wide_totals<Way::divided>(s, t, encode, decode);
    case Way::stochastic:
      return wide_totals<Way::stochastic>(s, t, encode, decode);
    case Way::stochastic_divided:
      return wide_totals<Way::stochastic_divided>(s, t, encode, decode);
    default:
      return wide_totals<Way::saturating>(s, t, encode, decode);
  }
}

void quantize_carefully(const Scaling& s, const Tile& block, const Batch& b, std::size_t index, QuantSums& sums) {
  Totals totals;
  if (b.scales.code[index] == 255) {
    spoil(block, sums);
  } else {
    totals = wide_totals(s, block, b.scales.encode[index], b.scales.decode[index]);
    add_values(totals, 1, block.rows * block.cols, sums);
  }
  add_block(s, b, index, block.rows * block.cols, totals.x2, sums);
}

void spoil(const Tile& t, QuantSums& sums) {
  for (std::size_t r = 0; r < t.rows; ++r) {
    std::fill_n(t.out + r * t.out_stride, t.cols, std::numeric_limits<float>::quiet_NaN());
    for (std::size_t c = 0; c < t.cols; ++c) {
      const float magnitude = std::fabs(t.x[r * t.stride + c]);
      sums.nonzero += magnitude != 0;
      if (magnitude <= std::numeric_limits<float>::max()) sums.amax = std::max(sums.amax, magnitude);
    }
  }
  sums.elements += t.rows * t.cols;
}

}  // namespace moescope
