// Functions of one row of numbers that the model's layers share, written with Highway (kernels/lanes.h). They give
// equal bits on every processor. Rows may have any length. float64 is for gradient checks.
#pragma once

#include <cstddef>

#include "core/numerics/float_formats.h"

namespace moescope {

// sum a_i b_i
float dot(const float* a, const float* b, std::size_t n);
double dot(const double* a, const double* b, std::size_t n);

// y_i += weight x_i, rounded once.
void add_scaled(float weight, const float* x, std::size_t n, float* y);
void add_scaled(double weight, const double* x, std::size_t n, double* y);

// out_i = 1 / (1 + exp(-in_i))
void sigmoid_row(const float* in, std::size_t n, float* out);
void sigmoid_row(const double* in, std::size_t n, double* out);

// out_i = exp(scale in_i) / sum, in place if out == in; n >= 1. Returns log sum exp(scale in_i). Writes the largest
// scale in_i to `largest` unless it is nullptr.
float softmax_row(const float* in, std::size_t n, float scale, float* out, float* largest = nullptr);
double softmax_row(const double* in, std::size_t n, double scale, double* out, double* largest = nullptr);

// Backward pass of a softmax whose result was not kept, in place: turns scores s into p = exp(scale s - lse), and the
// gradients dp of p into those of s, scale p (dp - delta), where delta = sum p dp. n is a multiple of 16.
void softmax_backward_row(float* s_to_p, float* dp_to_ds, std::size_t n, float scale, float lse, float delta);
void softmax_backward_row(double* s_to_p, double* dp_to_ds, std::size_t n, double scale, double lse, double delta);
// Backward pass of n softmaxes side by side, with `count` elements each; see softmax_backward_row().
void softmax_backward_columns(float* s_to_p, float* dp_to_ds, std::size_t count, std::size_t n, float scale,
                              const float* lse, const float* delta);

// Rounds to BF16 as matrix units take it: to nearest, magnitudes below 2^-126 to 0.
void round_to_unit_bf16(const float* in, std::size_t n, Bf16* out);
void round_to_unit_bf16(const float* in, std::size_t n, float* out);  // `in` and `out` may be equal
void round_to_unit_bf16(const double* in, std::size_t n, double* out);

}  // namespace moescope
