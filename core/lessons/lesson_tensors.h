// Generated tensors for lessons about number formats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moescope {

// Every value is  (mean + sigma z) * f,  with z drawn from
//   gaussian     the standard normal distribution
//   heavy_tails  Student's t with `freedom` degrees of freedom
// and f = 2^-(spread u1) * 2^-(patch_spread u2), times `outlier_factor` in the outlier column `outlier_column`. u1 of
// the element and u2 of its patch (32 columns of one row) are uniform in [0, 1).
struct LessonTensor {
  std::string name, about;
  enum class Recipe { gaussian, heavy_tails } recipe = Recipe::gaussian;
  int rows = 256, cols = 256;
  double mean = 0, sigma = 1, freedom = 3;
  double spread = 0, patch_spread = 0;  // octaves
  int outlier_column = -1;              // -1: no outlier column
  double outlier_factor = 1;
  std::int64_t seed = 1;
};

// Returns [rows, cols] row-major; equal seeds give equal bits.
std::vector<float> make_tensor(const LessonTensor& tensor);

// Columns from which a figure is computed. neighbours: the other columns of the block of 32 that contains the outlier
// column; others: all columns except the outlier column.
enum class LessonColumns { all, neighbours, others };
bool counts(const LessonTensor& tensor, LessonColumns columns, int column);

}  // namespace moescope
