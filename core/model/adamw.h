// AdamW with decoupled weight decay on every parameter (Loshchilov and Hutter 2019), gradient clipping, and the
// schedule of the learning rate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/cluster/ranks/ranks.h"
#include "core/config/run_config.h"
#include "core/model/layers/parameters.h"

namespace moescope {

// Cuts runs into slices, one for each task.
std::vector<ParameterRun> optimizer_slices(std::span<const ParameterRun> runs);

// True if this rank updates these parameters. An expert's parameters are updated on the rank that holds it
// (expert_exchange.h), all others on every rank.
bool is_of_rank(const ParameterRun& run, const Ranks* ranks, int n_experts);

// Returns the L2 norm of the gradient over all slices. Each rank adds up the part of its own experts, and rank 0 also
// the part of the parameters that all ranks share.
template <class T>
double gradient_norm(const T* gradients, std::span<const ParameterRun> slices, int n_experts, Ranks* ranks = nullptr);

// Returns the learning rate of step t, counted from 0: lr (t + 1) / warmup_steps during the warmup, then the constant
// lr, or a cosine from lr to lr_min at total_steps and lr_min afterwards.
double learning_rate(const OptimizerConfig& config, std::int64_t step);

// Arenas of all parameters, to which the offsets of the slices refer.
template <class T>
struct AdamWArenas {
  const T* gradients;
  T *weights, *moment1, *moment2;
};
// Updates weights p and moments m and v with g = gradient * gradient_scale and n = step + 1:
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   p = (1 - lr wd) p - lr / (1 - b1^n) m / (sqrt(v / (1 - b2^n)) + eps)
template <class T>
void adamw_update(const OptimizerConfig& config, std::int64_t step, double lr, double gradient_scale,
                  std::span<const ParameterRun> slices, const AdamWArenas<T>& arenas);

}  // namespace moescope
