#include "core/numerics/batch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/numerics/element_lanes.h"
#include "core/numerics/simd.h"

namespace moescope {
namespace {

constexpr std::size_t kWidth = kLanes<float>;
constexpr std::int32_t kLimitBits = 0x7F000000;  // from 2^127 on a decoded value may be infinite

std::size_t padded_count(const Batch& b) {
  return (b.count + kWidth - 1) / kWidth * kWidth;
}

// Largest magnitudes in units of the element.
MOESCOPE_SIMD void scale_amax(const Scaling& s, Batch& b) {
  const std::size_t padded = padded_count(b);
  const float* __restrict encode = b.scales.encode.data();
  const float* __restrict decode = b.scales.decode.data();
  float* __restrict scaled = b.scaled_amax.data();
  if (s.format.scheme == QuantScheme::nvfp4)
    for (std::size_t i = 0; i < padded; ++i)
      scaled[i] = quotient(std::bit_cast<float>(b.scales.amax_bits[i]), decode[i], encode[i]);
  else
    for (std::size_t i = 0; i < padded; ++i) scaled[i] = std::bit_cast<float>(b.scales.amax_bits[i]) * encode[i];
}

// Everything about the batch that follows from its scales.
MOESCOPE_SIMD void weigh_blocks(const Scaling& s, Batch& b) {
  const std::size_t padded = padded_count(b);
  scale_amax(s, b);
  const float clip_limit = s.clip_limit;
  std::int32_t top_amax = 0, top_code = 0, least_code = 255, clipped = 0;
  for (std::size_t i = 0; i < padded; ++i) {
    const std::int32_t amax = b.scales.amax_bits[i], code = b.scales.code[i];
    clipped += b.scaled_amax[i] > clip_limit;
    top_amax = std::max(top_amax, amax);
    top_code = std::max(top_code, amax == 0 ? 0 : code);
    least_code = std::min(least_code, amax == 0 ? 255 : code);
  }
  const std::int32_t exponent = std::clamp(top_code, 1, 253);
  const float inverse_unit = std::bit_cast<float>((254 - exponent) << 23);
  for (std::size_t i = 0; i < padded; ++i) {
    const float weight = b.scales.amax_bits[i] == 0 ? 0.0f : b.scales.decode[i] * inverse_unit;
    b.weight2[i] = weight * weight;
  }
  const double unit = std::bit_cast<double>(static_cast<std::int64_t>(exponent - 127 + 1023) << 52);
  b.unit2 = unit * unit;
  b.top_amax = top_code == 255 ? kInfinityBits : top_amax;
  b.spread = std::max(top_code - least_code, 0);
  b.clipped_blocks = clipped;
}

}  // namespace

void find_batch_scales(const Scaling& s, Batch& b) {
  find_scales(s, b.count, b.scales);
  weigh_blocks(s, b);
}

MOESCOPE_SIMD void add_x2(Batch& b, std::size_t count, Totals& totals) {
  Floats x2{};
  for (std::size_t i = count; i % kWidth; ++i) b.x2[i] = 0;
  for (std::size_t i = 0; i < (count + kWidth - 1) / kWidth; ++i)
    x2 += load(b.x2.data() + i * kWidth) * load(b.weight2.data() + i * kWidth);
  totals.x2 = sum_of<float>(x2);
  totals.xq = (totals.x2 + totals.q2 - totals.err2) / 2;  // x2 - 2 xq + q2 = err2
}

bool sums_hold(const Batch& b, const Totals& t) {
  const bool lost_error = t.err2 <= t.x2 * 0x1p-60 && (t.underflow || (b.spread > 30 && t.x2 > 0));
  return b.top_amax < kLimitBits && !lost_error;
}

void add_values(const Totals& t, double unit2, std::uint64_t elements, QuantSums& sums) {
  sums.x2 += t.x2 * unit2, sums.q2 += t.q2 * unit2, sums.err2 += t.err2 * unit2;
  sums.xq += t.xq * unit2;
  sums.elements += elements;
  sums.nonzero += t.nonzero, sums.underflow += t.underflow, sums.clipped += t.clipped;
}

void ScaleCounts::add(const Batch& b) {
  const std::int32_t* code = b.scales.code.data();
  std::size_t i = 0;
  for (; i + 4 <= b.count; i += 4)
    for (std::size_t k = 0; k < 4; ++k) ++counts_[k][static_cast<std::size_t>(code[i + k])];
  for (; i < b.count; ++i) ++counts_[0][static_cast<std::size_t>(code[i])];
}

void ScaleCounts::add_to(QuantSums& sums) const {
  for (const auto& counts : counts_)
    for (std::size_t i = 0; i < counts.size(); ++i) sums.e8m0_blocks[i] += counts[i];
}

MOESCOPE_SIMD void add_blocks(const Batch& b, std::size_t per_row, std::size_t elements, std::size_t last_elements,
                              QuantSums& sums) {
  alignas(64) float size[kScales];
  const std::size_t padded = padded_count(b);
  for (std::size_t i = 0; i < padded; ++i) size[i] = static_cast<float>(elements);
  if (last_elements != elements)
    for (std::size_t i = per_row - 1; i < b.count; i += per_row) size[i] = static_cast<float>(last_elements);
  alignas(64) float crest[kScales];
  std::int32_t nonzero = 0;
  for (std::size_t i = 0; i < padded; ++i) {
    const float x2 = b.x2[i] > 0 ? b.x2[i] : std::numeric_limits<float>::max();
    crest[i] = b.scaled_amax[i] * b.scaled_amax[i] * size[i] / x2;
    nonzero += b.scales.amax_bits[i] != 0;
  }
  for (std::size_t i = 0; i < padded; ++i) crest[i] = std::sqrt(crest[i]);
  Floats crest_sum{};
  for (std::size_t i = 0; i < padded; i += kWidth) crest_sum += load(crest + i);
  sums.blocks += b.count;
  sums.crest += sum_of<float>(crest_sum);
  sums.crest_blocks += static_cast<std::uint64_t>(nonzero);
  sums.clipped_blocks += static_cast<std::uint64_t>(b.clipped_blocks);
  sums.amax = std::max(sums.amax, std::bit_cast<float>(b.top_amax));
}

void add_block(const Scaling& s, const Batch& b, std::size_t index, std::size_t elements, double x2, QuantSums& sums) {
  ++sums.blocks;
  ++sums.e8m0_blocks[static_cast<std::size_t>(b.scales.code[index])];
  if (b.scales.code[index] == 255) return;
  const float amax = std::bit_cast<float>(b.scales.amax_bits[index]);
  sums.clipped_blocks += b.scaled_amax[index] > s.clip_limit;
  sums.amax = std::max(sums.amax, amax);
  if (amax == 0) return;
  ++sums.crest_blocks;
  sums.crest += amax / std::sqrt(x2 / static_cast<double>(elements));
}

}  // namespace moescope
