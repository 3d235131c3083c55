#include "core/numerics/hadamard.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

#include "core/numerics/counter_bits.h"
#include "core/numerics/simd.h"

namespace moescope {
namespace {

constexpr std::size_t kLines = 16;  // rotated side by side
constexpr std::size_t kMaxBlock = 128;

using Lines = float[kMaxBlock][kLines];

[[gnu::always_inline]] inline float sign_of(std::uint64_t seed, std::size_t index) {
  return mix_bits(mix_bits(seed) ^ index) & 1 ? -1.0f : 1.0f;
}

[[gnu::always_inline]] inline void transform(Lines& v, std::size_t n) {
  for (std::size_t half = 1; half < n; half *= 2)
    for (std::size_t i = 0; i < n; i += 2 * half)
      for (std::size_t k = i; k < i + half; ++k)
        for (std::size_t l = 0; l < kLines; ++l) {
          const float a = v[k][l], b = v[k + half][l];
          v[k][l] = a + b;
          v[k + half][l] = a - b;
        }
}

struct Steps {
  std::size_t along, across;  // floats from element to element of a line, and from line to line
};

// `factor`: n signs, times 1 / sqrt(n).
MOESCOPE_SIMD void rotate_lines(const float* __restrict in, Steps from, std::size_t n, std::size_t lines,
                                const float* __restrict factor, float* __restrict out, Steps to) {
  alignas(64) Lines v;
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t l = 0; l < kLines; ++l) v[k][l] = 0;
    for (std::size_t l = 0; l < lines; ++l) v[k][l] = in[k * from.along + l * from.across] * factor[k];
  }
  transform(v, n);
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t l = 0; l < lines; ++l) out[k * to.along + l * to.across] = v[k][l];
}

}  // namespace

void hadamard_rotate(MatrixView in, BlockAxis axis, int block, std::uint64_t seed, std::size_t first, float* out,
                     std::size_t out_stride) {
  assert(block > 0 && static_cast<std::size_t>(block) <= kMaxBlock &&
         std::has_single_bit(static_cast<unsigned>(block)));
  assert(first % static_cast<std::size_t>(block) == 0);
  const bool along_row = axis == BlockAxis::row;
  const std::size_t length = along_row ? in.cols : in.rows, lines = along_row ? in.rows : in.cols;
  const Steps from = along_row ? Steps{1, in.stride} : Steps{in.stride, 1};
  const Steps to = along_row ? Steps{1, out_stride} : Steps{out_stride, 1};
  for (std::size_t k = 0, n = 0; k < length; k += n) {
    n = std::min(static_cast<std::size_t>(block), std::bit_floor(length - k));
    float factor[kMaxBlock];
    const float norm = static_cast<float>(1 / std::sqrt(static_cast<double>(n)));
    for (std::size_t i = 0; i < n; ++i) factor[i] = norm * sign_of(seed, first + k + i);
    for (std::size_t line = 0; line < lines; line += kLines)
      rotate_lines(in.data + k * from.along + line * from.across, from, n, std::min(kLines, lines - line), factor,
                   out + k * to.along + line * to.across, to);
  }
}

}  // namespace moescope
