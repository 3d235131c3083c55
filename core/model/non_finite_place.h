// A value that is not finite, and its place.
#pragma once

#include <string>

#include "core/numerics/matrix.h"

namespace moescope {

struct NonFinitePlace {
  int layer = -1;             // -1 if the tensor belongs to no layer, such as the head
  std::string tensor;         // "w1 and w3 x", "gradient of layers.1.moe.experts.w2"
  int expert = -1;            // routed expert; -1 if the tensor belongs to none
  Index row = 0, column = 0;  // in the tensor; rows of an expert are counted from its first
  float value = 0;

  std::string text() const;  // "layer 1, w1 and w3 x, expert 5, row 17, column 3: NaN"
};

}  // namespace moescope
