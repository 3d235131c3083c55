// AdamW with decoupled weight decay on every parameter (Loshchilov and Hutter 2019), gradient clipping, and the
// schedule of the learning rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/config/run_config.h"
#include "core/model/layers/parameters.h"
#include "core/parallel/ranks.h"

namespace moescope {

// Cuts runs into slices, one for each task.
std::vector<ParameterRun> optimizer_slices(std::span<const ParameterRun> runs);

// True if this rank updates these parameters. An expert's parameters are updated on the rank that holds it
// (expert_exchange.h), all others on every rank.
bool is_of_rank(const ParameterRun& run, const Ranks* ranks, int n_experts);

// L2 norm of the gradient over all slices. Each rank adds up its own experts' part, rank 0 also the parameters that all
// ranks share.
template <class T>
double gradient_norm(const T* gradients, std::span<const ParameterRun> slices, int n_experts, Ranks* ranks = nullptr);

// Step t counts from 0: lr (t + 1) / warmup, then constant or cosine down to lr_min at total_steps; lr_min afterwards.
double learning_rate(const OptimizerConfig& config, std::int64_t step);

// g = gradient * gradient_scale;  p *= 1 - lr wd;  m, v: moments;  p -= lr / (1 - b1^n) m / (sqrt(v / (1 - b2^n)) +
// eps) with n = step + 1.
template <class T>
struct AdamWArenas {
  const T* gradients;
  T *weights, *moment1, *moment2;
};
template <class T>
void adamw_update(const OptimizerConfig& config, std::int64_t step, double lr, double gradient_scale,
                  std::span<const ParameterRun> slices, const AdamWArenas<T>& arenas);

}  // namespace moescope
