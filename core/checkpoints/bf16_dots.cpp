#include "core/checkpoints/bf16_dots.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/checkpoints/bf16_dots.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "core/files/tensors/tensor_file.h"
#include "core/numerics/kernels/lanes.h"

HWY_BEFORE_NAMESPACE();
namespace moescope {
namespace HWY_NAMESPACE {
namespace {

// Loads sixteen BF16 numbers.
MOESCOPE_ON_LANES Floats load_upper_halves(const std::uint16_t* p) {
  Floats r;
  const hn::RebindToUnsigned<Tag<float>> words;
  const hn::Rebind<std::uint16_t, decltype(words)> halves;
  for (std::size_t k = 0; k < r.kParts; ++k)
    r.part[k] = hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, p + k * r.kWidth))));
  return r;
}

float dot_halves(const std::uint16_t* a, const float* b, std::size_t n) {
  Floats sum = zero<float>(), next = zero<float>();
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    sum = fused(load_upper_halves(a + i), load(b + i), sum);
    next = fused(load_upper_halves(a + i + 16), load(b + i + 16), next);
  }
  for (; i < n; i += 16) {
    alignas(64) std::uint16_t whole[kLanes<float>] = {};
    std::memcpy(whole, a + i, std::min<std::size_t>(16, n - i) * sizeof(std::uint16_t));
    sum = fused(load_upper_halves(whole), load_first(b + i, n - i), sum);
  }
  return sum_of(sum + next);
}

void dot_rows(const Matrix<const float>& x, const std::uint16_t* weights, const Matrix<float>& y) {
  for (Index o = 0; o < y.cols; ++o)
    for (Index r = 0; r < y.rows; ++r) y.at(r, o) = dot_halves(weights + o * x.cols, x.row(r), x.cols);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace moescope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace moescope {

HWY_EXPORT(dot_rows);

bool bf16_dots(ConstMatrix<float> x, const std::byte* weights, Matrix<float> y) {
  return read_mapped([&] { HWY_DYNAMIC_DISPATCH(dot_rows)(x, reinterpret_cast<const std::uint16_t*>(weights), y); });
}

}  // namespace moescope
#endif
