// Correlation of pairs of numbers.
#pragma once

#include <cmath>

namespace moescope {

// Pearson's correlation of a and b, whose means are 0: sum a b / sqrt(sum a^2 sum b^2). NaN if all a or all b are 0.
class Correlation {
 public:
  void add(double a, double b) {
    ab_ += a * b;
    aa_ += a * a;
    bb_ += b * b;
  }
  double value() const { return ab_ / std::sqrt(aa_ * bb_); }

 private:
  double ab_ = 0, aa_ = 0, bb_ = 0;
};

}  // namespace moescope
