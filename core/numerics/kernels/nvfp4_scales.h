// Scales of NVFP4 blocks, sixteen at a time; the definition is in operand_format.h.
#pragma once

#include "core/numerics/kernels/element_lanes.h"

namespace moescope {

// Decoding scales of blocks from the E4M3 scales that are wanted under the scale of a tensor. Between E4M3's smallest
// normal number and its largest, where they are held, rounding needs no care for subnormals and saturation.
MOESCOPE_INLINE Floats nvfp4_decode_of(Floats wanted, Floats tensor_scale) {
  constexpr float kLeast = 0x1p-6f, kMost = 448.0f;
  constexpr std::int32_t kToLast = (23 - 3) << 23;
  const Floats raised = wanted < kLeast ? splat(kLeast) : wanted, held = raised > kMost ? splat(kMost) : raised;
  const Floats magic = (Floats)(((Ints)held & kInfinityBits) + kToLast);
  return tensor_scale * ((held + magic) - magic);
}
MOESCOPE_INLINE Floats nvfp4_decode(Floats amax, float tensor_scale) {
  return nvfp4_decode_of(amax / 6.0f / tensor_scale, splat(tensor_scale));
}

}  // namespace moescope
