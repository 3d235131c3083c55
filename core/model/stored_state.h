// Rounds the state of a training that is stored in BF16: weights and moments, as optimizer.master_format,
// moment1_format and moment2_format say. (Learner rounds expert_bias by router.bias_format.)
//
// A step computes in FP32 and rounds the results that it stores, as PyTorch's fused optimizers do with parameters in
// BF16. The arenas hold the rounded numbers, so that their readers need not know the format.
#pragma once

#include <cstdint>
#include <span>

#include "core/config/run_config.h"
#include "core/model/layers/parameters.h"

namespace moescope {

// Returns one of the two BF16 numbers around `value`: the one farther from zero with a probability equal to the
// distance of `value` from the other one, in units of the last BF16 place. `random` holds 16 random bits. Numbers of
// BF16, infinities and NaN do not change.
float bf16_rounded_stochastically(float value, std::uint32_t random);

// Rounds the weights to nearest before the first step if they are stored in BF16. With a perturbation, each weight that
// is not zero then moves one BF16 unit up or down, as Parameters::perturb() moves a weight in FP32.
template <class T>
void round_initial_weights(const RunConfig& config, std::span<const ParameterRun> runs, Parameters<T>& parameters);

// Rounds the state of the parameters in `slices` after step number `step`.
template <class T>
void round_state(const RunConfig& config, std::int64_t step, std::span<const ParameterRun> slices,
                 Parameters<T>& parameters);

}  // namespace moescope
