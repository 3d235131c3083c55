#include "core/numerics/kernels/four_over_six.h"

#include <array>
#include <cmath>

#include "core/numerics/kernels/float_rounding.h"

namespace moescope {
namespace {

constexpr Index kRows = 16;

float row_error(FourOverSix kind, const Nvfp4Tensor& tensor, const Nvfp4Block& block, const float* x, Index count,
                Index step) {
  const ElementRounding f = rounding_of(ElementFormat::e2m1);
  std::array<float, 16> errors;
  for (Index i = 0; i < count; ++i) {
    const float magnitude = std::fabs(x[i * step]);
    const float units = round_magnitude(f, magnitude * block.encode) * block.s;
    const float off = units * tensor.amax / tensor.bound - magnitude;
    errors[i] = kind == FourOverSix::mse ? off * off : std::fabs(off);
  }
  float sum = 0;
  for (Index i = 0; i < count; ++i) sum += errors[i];
  return sum;
}

float block_error(FourOverSix kind, const Nvfp4Tensor& tensor, const Nvfp4Block& scales, const SharedBlock& block) {
  std::array<float, kRows> rows{};
  for (Index r = 0; r < block.rows; ++r)
    rows[r] = row_error(kind, tensor, scales, block.x + r * block.row_stride, block.count, block.step);
  if (block.rows == 1) return rows[0];
  for (Index apart = kRows / 2; apart > 0; apart /= 2)
    for (Index r = 0; r < apart; ++r) rows[r] += rows[r + apart];
  return rows[0];
}

}  // namespace

bool goes_to_four(const Nvfp4Scaling& scaling, const Nvfp4Tensor& tensor, float amax, const SharedBlock& block) {
  const float six = block_error(scaling.four_over_six, tensor, nvfp4_block_of(scaling, tensor, amax, false), block);
  const float four = block_error(scaling.four_over_six, tensor, nvfp4_block_of(scaling, tensor, amax, true), block);
  return four < six;
}

}  // namespace moescope
