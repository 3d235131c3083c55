// Figures of sixteen values at once, and the ways in which a loop over them is compiled.
#pragma once

#include "core/numerics/kernels/batch.h"
#include "core/numerics/kernels/element_lanes.h"
#include "core/numerics/kernels/streaming.h"

namespace moescope {

struct Counts {
  Words nonzero{}, nonzero_out{}, clipped{};
};
template <Way kWay>
MOESCOPE_INLINE void add_counts(const Quantized& v, Floats clip_limit, Counts& counts) {
  counts.nonzero = counted(counts.nonzero, v.magnitude);
  counts.nonzero_out = counted(counts.nonzero_out, (Ints)v.r);
  if constexpr (kWay != Way::nearest) counts.clipped = v.y > clip_limit ? counts.clipped + 1 : counts.clipped;
}
MOESCOPE_INLINE void add_counts(const Counts& counts, Totals& totals) {
  const std::uint64_t nonzero = sum_of<std::uint32_t>(counts.nonzero);
  totals.nonzero += nonzero;
  totals.underflow += nonzero - sum_of<std::uint32_t>(counts.nonzero_out);
  totals.clipped += sum_of<std::uint32_t>(counts.clipped);
}

// In the first `cols` columns, a multiple of sixteen.
MOESCOPE_INLINE std::uint64_t count_nonzero(const Tile& t, std::size_t cols) {
  Words nonzero{};
  for (std::size_t r = 0; r < t.rows; ++r)
    for (std::size_t c = 0; c < cols; c += kLanes<float>)
      nonzero = counted(nonzero, magnitude_bits(load(t.x + r * t.stride + c)));
  return sum_of<std::uint32_t>(nonzero);
}

struct Squares {
  Floats x2{}, q2{}, err2{};
};

// Draws of sixteen neighbours of a row.
template <Way kWay>
MOESCOPE_INLINE Words draws_of(RowKey row, const std::uint32_t* column_keys) {
  if constexpr (is_stochastic(kWay)) return draw_bits(row, load(column_keys));
  return Words{};
}
template <Way kWay>
MOESCOPE_INLINE RowKey row_key_of(const Tile& t, std::size_t row) {
  if constexpr (is_stochastic(kWay)) return row_key(t.key.seed, t.key.stream, t.key.first_row + row);
  return {};
}

#define MOESCOPE_FOR_EACH_WAY(body)                                                         \
  body(nearest, Way::nearest) body(saturating, Way::saturating) body(divided, Way::divided) \
      body(stochastic, Way::stochastic) body(stochastic_divided, Way::stochastic_divided)

inline Way way_of(const OperandFormat& format, bool clips) {
  const bool divided = format.scheme == QuantScheme::nvfp4;
  if (format.rounding == Rounding::stochastic) return divided ? Way::stochastic_divided : Way::stochastic;
  if (divided) return Way::divided;
  return clips ? Way::saturating : Way::nearest;
}

}  // namespace moescope
