// The gated unit between the two linear layers of a feed-forward: a = silu(h1) * h3 (Shazeer 2020).
//
// Legend: T rows, F hidden width. h13_T2F holds h1 and h3 side by side. silu(x) = x sigmoid(x).
#pragma once

#include <cstddef>

namespace moescope {

void swiglu_forward(const float* h13, std::size_t rows, int inter, float* a);
void swiglu_forward(const double* h13, std::size_t rows, int inter, double* a);

// dh1 = da h3 s (1 + h1 (1 - s)), dh3 = da h1 s, with s = sigmoid(h1).
void swiglu_backward(const float* da, const float* h13, std::size_t rows, int inter, float* dh13);
void swiglu_backward(const double* da, const double* h13, std::size_t rows, int inter, double* dh13);

}  // namespace moescope
