// Causal attention of new tokens over all keys so far, with grouped heads, a window and sinks; forward only.
//
// Legend: n new tokens of a sequence, the last of its m tokens; H heads, G key heads, each for H / G heads; dq and dv
// widths of a query and of a value.
#pragma once

#include "core/numerics/matrix.h"

namespace moescope {

struct AttendShape {
  Index heads, key_heads, query_dim, value_dim;
  float scale;                   // factor of the scores
  Index window = 0;              // number of keys that a query sees, including its own token; 0: all up to it
  const float* sinks = nullptr;  // [H] an additional score in the softmax, without a value; may be nullptr
};

struct AttendInputs {
  Matrix<const float> q;  // [n, H dq]
  Matrix<const float> k;  // [m, G dq]
  Matrix<const float> v;  // [m, G dv]
};

// Computes out_(n, H dv) = softmax(scale q k^T) v for one head, on the calling thread.
void attend_head(const AttendShape& shape, const AttendInputs& in, Index head, Matrix<float> out);

}  // namespace moescope
