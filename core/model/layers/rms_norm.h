// RMSNorm: y = x / sqrt(mean(x^2) + eps) * weight  (Zhang and Sennrich 2019).
//
// Legend: T tokens, D features.
#pragma once

#include <cstddef>

namespace moescope {

// x_TD with `x_stride` elements from row to row; y_TD contiguous; inv_T receives 1 / sqrt(mean(x^2) + eps).
template <class T>
void rms_norm_forward(const T* x, std::size_t x_stride, int rows, int dim, const T* weight, double eps, T* y, T* inv);

// dx (+)= dL/dx, with `dx_stride`; dweight_D = dL/dweight.
//   dx = inv (w dy) - x inv^3 / D sum(w dy x)
// `partial` holds the weight gradient of each slice of rows: rms_norm_partials(rows) * D elements. `shard_rows`: those
// of a shard, whose sums are added pairwise (batch_part.h); 0: all rows are one.
template <class T>
void rms_norm_backward(const T* dy, const T* x, std::size_t x_stride, const T* inv, int rows, int dim, const T* weight,
                       T* dx, std::size_t dx_stride, bool accumulate, T* dweight, T* partial, int shard_rows = 0);
int rms_norm_partials(int rows);

}  // namespace moescope
