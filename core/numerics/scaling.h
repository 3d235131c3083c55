// Scales of many blocks at once, from their largest magnitudes; every scheme's definition is in operand_format.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/numerics/kernels/float_rounding.h"
#include "core/numerics/operand_format.h"

namespace moescope {

struct Scaling {
  OperandFormat format;  // fp8, mx or nvfp4
  ElementRounding rounding;
  float clip_limit;    // scaled magnitudes above it are clipped
  float tensor_scale;  // t of nvfp4
};
Scaling scaling_of(const OperandFormat& format, float tensor_amax);

inline constexpr std::size_t kScales = 256;

struct Scales {
  alignas(64) std::array<std::int32_t, kScales> amax_bits;  // NaN above infinity above all numbers
  alignas(64) std::array<float, kScales> encode;            // 1 / decode, rounded
  alignas(64) std::array<float, kScales> decode;            // NaN under code 255
  alignas(64) std::array<std::int32_t, kScales> code;       // place in the histogram of scales; 255: not finite
};

// The first `count` scales from their amax_bits; those after them, up to the next multiple of 16, from an amax of 0.
void find_scales(const Scaling& scaling, std::size_t count, Scales& scales);

}  // namespace moescope
