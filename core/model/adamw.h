// AdamW with decoupled weight decay on every parameter (Loshchilov and Hutter 2019), gradient clipping, schedule.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/run_config.h"

namespace moescope {

// Length of the gradient over all parameters.
template <class T>
double gradient_norm(const T* gradients, std::size_t count);

// Step t counts from 0: lr (t + 1) / warmup, then constant or cosine down to lr_min at total_steps and on.
double learning_rate(const OptimizerConfig& config, std::int64_t step);

// g = gradient * gradient_scale;  p *= 1 - lr wd;  m, v: moments;  p -= lr / (1 - b1^n) m / (sqrt(v / (1 - b2^n)) +
// eps) with n = step + 1.
template <class T>
void adamw_update(const OptimizerConfig& config, std::int64_t step, double lr, double gradient_scale, std::size_t count,
                  const T* gradients, T* weights, T* moment1, T* moment2);

}  // namespace moescope
