// State of a training that is stored in BF16: weights, Adam's moments and biases, as optimizer.master_format,
// moment1_format, moment2_format and router.bias_format say.
//
// A step computes in FP32 and rounds what it stores (PyTorch's fused optimizers with parameters in BF16). The arenas
// hold the rounded numbers, so that everything that reads them needs to know nothing of it.
#pragma once

#include <cstdint>
#include <span>

#include "core/config/run_config.h"
#include "core/model/layers/parameters.h"

namespace moescope {

// One of the two neighbours in BF16, the upper with the probability of the distance from the lower; `random`: 16 bits.
// What BF16 has, infinities and NaN stay.
float bf16_rounded_stochastically(float value, std::uint32_t random);

// Weights before the first step: to nearest. With a perturbation each then moves a BF16 unit up or down, as
// Parameters::initialise() moves a weight in FP32.
template <class T>
void round_initial_weights(const RunConfig& config, std::span<const ParameterRun> runs, Parameters<T>& parameters);

// After the `step`-th step, of the parameters in these runs.
template <class T>
void round_state(const RunConfig& config, std::int64_t step, std::span<const ParameterRun> slices,
                 Parameters<T>& parameters);

}  // namespace moescope
