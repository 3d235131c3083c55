// RMSNorm: y = x / sqrt(mean(x^2) + eps) * weight  (Zhang and Sennrich 2019).
//
// Legend: T tokens, D features.
#pragma once

#include "core/numerics/matrix.h"

namespace moescope {

// Computes y_TD from x_TD and weight_D; inv_T receives 1 / sqrt(mean(x^2) + eps).
template <class T>
void rms_norm_forward(ConstMatrix<T> x, std::span<const T> weight, double eps, Matrix<T> y, std::span<T> inv);

// Inputs and results of the forward pass.
template <class T>
struct RmsNorm {
  Matrix<const T> x;          // [T, D]
  std::span<const T> weight;  // [D]
  std::span<const T> inv;     // [T]
};
template <class T>
struct NormGradient {
  std::span<T> dweight;  // [D] dL/dweight
  Matrix<T> partial;     // [rms_norm_partials(T), D] scratch: the weight gradient of each slice of rows
  int shard_rows = 0;    // rows of a shard; sums of shards are added pairwise (batch_part.h); 0: all rows are one shard
};
// Computes dweight, and dx_TD = dL/dx from dy_TD, which is added to dx if `accumulate`:
//     dx = inv (w dy) - x inv^3 / D sum(w dy x)
template <class T>
void rms_norm_backward(ConstMatrix<T> dy, const RmsNorm<T>& norm, Matrix<T> dx, bool accumulate,
                       const NormGradient<T>& gradient);
Index rms_norm_partials(Index rows);

}  // namespace moescope
