// Functions of one row of numbers that the model's layers share, with Highway (kernels/lanes.h): the same bits on every
// processor. Rows may have any length; float64 serves where gradients are checked.
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

// out_i = exp(scale in_i) / sum, in place if out == in. Returns log sum exp(scale in_i). n >= 1. `largest`, if asked
// for, becomes the largest scale in_i.
float softmax_row(const float* in, std::size_t n, float scale, float* out, float* largest = nullptr);
double softmax_row(const double* in, std::size_t n, double scale, double* out, double* largest = nullptr);

// Back through a softmax that was not kept, in place: turns scores s into p = exp(scale s - lse), and the gradients dp
// of p into those of s, scale p (dp - delta), where delta = sum p dp. n is a multiple of 16.
void softmax_backward_row(float* s_to_p, float* dp_to_ds, std::size_t n, float scale, float lse, float delta);
void softmax_backward_row(double* s_to_p, double* dp_to_ds, std::size_t n, double scale, double lse, double delta);
// The same of n softmaxes side by side, `count` elements of each.
void softmax_backward_columns(float* s_to_p, float* dp_to_ds, std::size_t count, std::size_t n, float scale,
                              const float* lse, const float* delta);

// BF16 numbers as matrix units take them: rounded to nearest, magnitudes below 2^-126 to 0.
void round_for_units(const float* in, std::size_t n, Bf16* out);
void round_for_units(const float* in, std::size_t n, float* out);  // may be in place
void round_for_units(const double* in, std::size_t n, double* out);

}  // namespace moescope
