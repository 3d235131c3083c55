// Min/max/mean of any slice of a growing series in time logarithmic in its length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moescope {

// A slice of a series. NaN and Inf are counted, never folded into min, max or mean.
struct PyramidBin {
  float min = 0, max = 0;  // of the finite values; meaningless when finite == 0
  double sum = 0;
  std::uint32_t finite = 0;
  std::uint32_t non_finite = 0;
  std::uint32_t missing = 0;  // steps that carried no value (kNoValue appended as `missing`)
  float mean() const { return static_cast<float>(sum / finite); }
};

}  // namespace moescope
