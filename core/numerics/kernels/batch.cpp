#include "core/numerics/kernels/batch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/numerics/kernels/element_lanes.h"
#include "core/numerics/kernels/simd.h"

namespace moescope {
namespace {

constexpr std::size_t kWidth = kLanes<float>;
constexpr std::int32_t kLimitBits = 0x7F000000;  // from 2^127 on a decoded value may be infinite

std::size_t padded_count(const Batch& b) {
  return (b.count + kWidth - 1) / kWidth * kWidth;
}

// Largest magnitudes in units of the element.
template <bool kDivided>
MOESCOPE_INLINE Floats scaled_amax(const Batch& b, std::size_t i) {
  const Floats amax = (Floats)load(b.scales.amax_bits.data() + i), encode = load(b.scales.encode.data() + i);
  if constexpr (kDivided) return quotient(amax, load(b.scales.decode.data() + i), encode);
  return amax * encode;
}

// Everything about the batch that follows from its scales.
template <bool kDivided>
MOESCOPE_INLINE void weigh_blocks(const Scaling& s, Batch& b) {
  const std::size_t padded = padded_count(b);
  const Floats clip_limit = splat(s.clip_limit);
  Ints top_amax{}, top_code{}, least_code = Ints{} + 255, clipped{};
  for (std::size_t i = 0; i < padded; i += kWidth) {
    const Ints amax = load(b.scales.amax_bits.data() + i), code = load(b.scales.code.data() + i);
    const Floats scaled = scaled_amax<kDivided>(b, i);
    store(b.scaled_amax.data() + i, scaled);
    clipped = scaled > clip_limit ? clipped + 1 : clipped;
    top_amax = larger(top_amax, amax);
    top_code = larger(top_code, amax == 0 ? Ints{} : code);
    const Ints counting = amax == 0 ? Ints{} + 255 : code;
    least_code = counting < least_code ? counting : least_code;
  }
  const std::int32_t top = max_of<std::int32_t>(top_code), exponent = std::clamp(top, 1, 253);
  b.inverse_unit = std::bit_cast<float>((254 - exponent) << 23);
  const Floats inverse_unit = splat(b.inverse_unit);
  for (std::size_t i = 0; i < padded; i += kWidth) {
    const Floats weight = load(b.scales.decode.data() + i) * inverse_unit;
    const Ints amax = load(b.scales.amax_bits.data() + i);
    store(b.weight2.data() + i, amax == 0 ? Floats{} : weight * weight);
    store(b.x2.data() + i, Floats{});
  }
  const double unit = std::bit_cast<double>(static_cast<std::int64_t>(exponent - 127 + 1023) << 52);
  b.unit2 = unit * unit;
  b.top_amax = top == 255 ? kInfinityBits : max_of<std::int32_t>(top_amax);
  b.spread = std::max(top - 255 + max_of<std::int32_t>(255 - least_code), 0);
  b.clipped_blocks = sum_of<std::int32_t>(clipped);
}

MOESCOPE_SIMD void weigh_blocks_of(const Scaling& s, Batch& b) {
  if (s.format.scheme == QuantScheme::nvfp4) return weigh_blocks<true>(s, b);
  weigh_blocks<false>(s, b);
}

}  // namespace

void find_batch_scales(const Scaling& s, Batch& b) {
  find_scales(s, b.count, b.scales);
  weigh_blocks_of(s, b);
}

MOESCOPE_SIMD void add_x2(Batch& b, std::size_t count, Totals& totals) {
  Floats x2{};
  for (std::size_t i = count; i % kWidth; ++i) b.x2[i] = 0;
  for (std::size_t i = 0; i < (count + kWidth - 1) / kWidth; ++i)
    x2 += load(b.x2.data() + i * kWidth) * load(b.weight2.data() + i * kWidth);
  totals.x2 = sum_of<float>(x2);
  totals.find_xq();
}

bool sums_hold(std::int32_t top_amax, std::int32_t spread, const Totals& t) {
  const bool lost_error = t.err2 <= t.x2 * 0x1p-60 && (t.underflow || (spread > 30 && t.x2 > 0));
  return top_amax < kLimitBits && !lost_error;
}

bool sums_hold(const Batch& b, const Totals& t) {
  return sums_hold(b.top_amax, b.spread, t);
}

void add_values(const Totals& t, double unit2, std::uint64_t elements, QuantSums& sums) {
  sums.x2 += t.x2 * unit2, sums.q2 += t.q2 * unit2, sums.err2 += t.err2 * unit2;
  sums.xq += t.xq * unit2;
  sums.elements += elements;
  sums.nonzero += t.nonzero, sums.underflow += t.underflow, sums.clipped += t.clipped;
}

// Neighbours mostly have one of a few scales, which are counted one after the other, all blocks at once: adding to the
// counter of each block would wait for the one before.
MOESCOPE_SIMD void ScaleCounts::add(const std::int32_t* codes, std::size_t count) {
  constexpr std::int32_t kFew = 6;
  const std::size_t whole = count / kWidth * kWidth;
  for (std::size_t i = whole; i < count; ++i) ++counts_[static_cast<std::size_t>(codes[i])];
  if (!whole) return;
  Ints top{}, least = Ints{} + 255;
  for (std::size_t i = 0; i < whole; i += kWidth) {
    const Ints code = load(codes + i);
    top = larger(top, code);
    least = code < least ? code : least;
  }
  const std::int32_t first = 255 - max_of<std::int32_t>(255 - least), last = max_of<std::int32_t>(top);
  if (last - first >= kFew) {
    for (std::size_t i = 0; i < whole; ++i) ++counts_[static_cast<std::size_t>(codes[i])];
    return;
  }
  for (std::int32_t code = first; code <= last; ++code) {
    Words found{};
    for (std::size_t i = 0; i < whole; i += kWidth) found = load(codes + i) == code ? found + 1 : found;
    counts_[static_cast<std::size_t>(code)] += sum_of<std::uint32_t>(found);
  }
}

void ScaleCounts::add_to(QuantSums& sums) const {
  for (std::size_t i = 0; i < counts_.size(); ++i) sums.e8m0_blocks[i] += counts_[i];
}

MOESCOPE_SIMD void add_blocks(const Batch& b, std::size_t per_row, std::size_t elements, std::size_t last_elements,
                              QuantSums& sums) {
  alignas(64) float size[kScales];
  const std::size_t padded = padded_count(b);
  for (std::size_t i = 0; i < padded; ++i) size[i] = static_cast<float>(elements);
  if (last_elements != elements)
    for (std::size_t i = per_row - 1; i < b.count; i += per_row) size[i] = static_cast<float>(last_elements);
  Floats crest_sum{};
  Words nonzero{};
  for (std::size_t i = 0; i < padded; i += kWidth) {
    const Floats x2 = load(b.x2.data() + i), scaled = load(b.scaled_amax.data() + i);
    const Floats crest2 = scaled * scaled * load(size + i) / (x2 > 0 ? x2 : splat(std::numeric_limits<float>::max()));
    crest_sum += square_root(crest2);
    nonzero = counted(nonzero, load(b.scales.amax_bits.data() + i));
  }
  sums.blocks += b.count;
  sums.crest += sum_of<float>(crest_sum);
  sums.crest_blocks += sum_of<std::uint32_t>(nonzero);
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
