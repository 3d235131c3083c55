// Up to kScales blocks with everything that follows from their scales, and what their values add up to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/numerics/scaling.h"

namespace moescope {

// Of rows one after the other, or of columns side by side. Arrays are filled up to a multiple of 16 by blocks of
// nothing.
struct Batch {
  Scales scales;
  std::size_t count = 0;
  float inverse_unit = 1;                          // the unit: a power of two near the largest scale
  double unit2 = 1;                                // its square
  alignas(64) std::array<float, kScales> weight2;  // square of the scale in that unit; 0 under a block of zeros
  alignas(64) std::array<float, kScales> x2;       // of the block, in units of its scale; 0 at first
  alignas(64) std::array<float, kScales> scaled_amax;
  std::int32_t top_amax = 0;  // bits
  std::int32_t spread = 0;    // binary exponents between the scales that matter
  std::int32_t clipped_blocks = 0;
};

// What values add up to; squares in units of Batch::unit2.
struct Totals {
  double x2 = 0, q2 = 0, xq = 0, err2 = 0;
  std::uint64_t nonzero = 0, underflow = 0, clipped = 0;

  void find_xq() { xq = (x2 + q2 - err2) / 2; }  // x2 - 2 xq + q2 = err2
};

// Scales and all else of b.count blocks from their largest magnitudes in b.scales.amax_bits.
void find_batch_scales(const Scaling& scaling, Batch& batch);
// Completes the totals, of which the squares of x are known by block.
void add_x2(Batch& batch, std::size_t count, Totals& totals);
// False where float32 was too narrow for the sums: beyond its range, or values that vanish beside others of their batch
// while those are (nearly) exact.
bool sums_hold(const Batch& batch, const Totals& totals);
bool sums_hold(std::int32_t top_amax, std::int32_t spread, const Totals& totals);
void add_values(const Totals& totals, double unit2, std::uint64_t elements, QuantSums& sums);

// Blocks of each scale.
class ScaleCounts {
 public:
  // Codes of at most kScales blocks.
  void add(const std::int32_t* codes, std::size_t count);
  void add_to(QuantSums& sums) const;

 private:
  std::array<std::uint32_t, 256> counts_{};
};

// Adds a batch of blocks of `elements` values each, or of `last_elements` for the last of every `per_row`, but for
// their scales.
void add_blocks(const Batch& batch, std::size_t per_row, std::size_t elements, std::size_t last_elements,
                QuantSums& sums);
// One block, with its sums in double. `x2` in units of 1.
void add_block(const Scaling& scaling, const Batch& batch, std::size_t index, std::size_t elements, double x2,
               QuantSums& sums);

}  // namespace moescope
