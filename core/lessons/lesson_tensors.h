// Generated tensors for lessons about number formats.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moescope {

// Every value is  (mean + sigma z) * f,  with z drawn from
//   gaussian     the standard normal distribution
//   heavy_tails  Student's t with `freedom` degrees of freedom
// and f = 2^-(spread u1) * 2^-(patch_spread u2) with u1 of the element and u2 of its patch (32 columns of one row)
// drawn evenly from [0, 1), times `loud_factor` in column `loud_column`.
struct LessonTensor {
  std::string name, about;
  enum class Recipe { gaussian, heavy_tails } recipe = Recipe::gaussian;
  int rows = 256, cols = 256;
  double mean = 0, sigma = 1, freedom = 3;
  double spread = 0, patch_spread = 0;  // octaves
  int loud_column = -1;                 // none
  double loud_factor = 1;
  std::int64_t seed = 1;
};

// [rows, cols] row-major; the same seed gives the same bits.
std::vector<float> make_tensor(const LessonTensor& tensor);

// Which columns a figure is taken over. neighbours: those in the loud column's block of 32 along the row, without it;
// others: all but the loud column.
enum class LessonColumns { all, neighbours, others };
bool counts(const LessonTensor& tensor, LessonColumns columns, int column);

}  // namespace moescope
