#include "core/lessons/lesson_tensors.h"

#include <cmath>

#include "core/numerics/rng.h"

namespace moescope {
namespace {

// Normal numbers that are reserved for one element of heavy_tails, which takes 1 + `freedom` of them.
constexpr std::uint64_t kDraws = 64;
constexpr int kPatch = 32;

double student_t(const RandomStream& stream, std::uint64_t first, double freedom) {
  double chi2 = 0;
  for (std::uint64_t i = 1; i <= static_cast<std::uint64_t>(freedom); ++i) {
    const double z = stream.normal(first + i);
    chi2 += z * z;
  }
  return stream.normal(first) / std::sqrt(chi2 / freedom);
}

}  // namespace

std::vector<float> make_tensor(const LessonTensor& tensor) {
  const RandomStream values(tensor.seed, "lesson " + tensor.name);
  const RandomStream spreads(tensor.seed, "lesson spread " + tensor.name);
  const RandomStream patches(tensor.seed, "lesson patches " + tensor.name);
  std::vector<float> out;
  out.reserve(tensor.rows * static_cast<std::size_t>(tensor.cols));
  for (int r = 0; r < tensor.rows; ++r) {
    for (int c = 0; c < tensor.cols; ++c) {
      const std::uint64_t n = out.size();
      const double z = tensor.recipe == LessonTensor::Recipe::gaussian ? values.normal(n)
                                                                       : student_t(values, n * kDraws, tensor.freedom);
      const std::uint64_t patch = static_cast<std::uint64_t>(r) << 32 | static_cast<std::uint64_t>(c / kPatch);
      double factor = std::exp2(-tensor.spread * spreads.uniform(n) - tensor.patch_spread * patches.uniform(patch));
      if (c == tensor.outlier_column) factor *= tensor.outlier_factor;
      out.push_back(static_cast<float>((tensor.mean + tensor.sigma * z) * factor));
    }
  }
  return out;
}

bool counts(const LessonTensor& tensor, LessonColumns columns, int column) {
  if (columns == LessonColumns::all) return true;
  if (column == tensor.outlier_column) return false;
  return columns == LessonColumns::others || column / kPatch == tensor.outlier_column / kPatch;
}

}  // namespace moescope
