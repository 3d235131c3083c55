#include <bit>

#include "core/model/optimizer.h"
#include "core/numerics/bf16_rounding.h"
#include "core/numerics/rng.h"
#include "core/numerics/threads.h"

namespace moescope {
namespace {

constexpr int kDrawBits = 16;
constexpr std::size_t kDraws = 64 / kDrawBits;  // draws in a random number of 64 bits

// Returns draw number `n` of a step, 16 bits.
std::uint32_t draw_of(const RandomStream& random, std::uint64_t n) {
  return static_cast<std::uint32_t>(random.bits(n / kDraws) >> (n % kDraws * kDrawBits)) & 0xFFFF;
}

template <class T>
void round_stochastically(const RandomStream& random, std::uint64_t first, std::span<T> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<T>(bf16_rounded_stochastically(static_cast<float>(values[i]), draw_of(random, first + i)));
}

// Returns the next BF16 number away from zero (`outwards`) or towards it.
float bf16_neighbour(float value, bool outwards) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>(outwards ? bits + 0x10000 : bits - 0x10000);
}

}  // namespace

float bf16_rounded_stochastically(float value, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7F800000) == 0x7F800000) return value;
  return std::bit_cast<float>((bits + (random & 0xFFFF)) & 0xFFFF0000);
}

template <class T>
void round_initial_weights(const RunConfig& config, std::span<const ParameterRun> runs, Parameters<T>& parameters) {
  if (config.optimizer.master_format == StoredFormat::fp32) return;
  const RandomStream random(config.perturbation, "perturbation.bf16");
  for (const ParameterRun& run : runs) {
    const std::span<T> weights = run.in(parameters.weights);
    round_to_bf16(weights);
    if (config.perturbation == 0) continue;
    for (std::size_t i = 0; i < weights.size(); ++i)
      if (weights[i] != T{0})
        weights[i] =
            static_cast<T>(bf16_neighbour(static_cast<float>(weights[i]), (draw_of(random, run.offset + i) & 1) != 0));
  }
}

template <class T>
void round_state(const RunConfig& config, std::int64_t step, std::span<const ParameterRun> slices,
                 Parameters<T>& parameters) {
  const OptimizerConfig& o = config.optimizer;
  const bool weights = o.master_format == StoredFormat::bf16, moment1 = o.moment1_format == StoredFormat::bf16,
             moment2 = o.moment2_format == StoredFormat::bf16;
  if (!weights && !moment1 && !moment2) return;
  const RandomStream random(config.seed, "optimizer.update_stochastic");
  parallel_for(to_int(slices.size()), [&](int i) {
    const ParameterRun& slice = slices[i];
    if (weights && o.update_stochastic)
      round_stochastically(random, static_cast<std::uint64_t>(step) * parameters.size() + slice.offset,
                           slice.in(parameters.weights));
    else if (weights)
      round_to_bf16(slice.in(parameters.weights));
    if (moment1) round_to_bf16(slice.in(parameters.moment1));
    if (moment2) round_to_bf16(slice.in(parameters.moment2));
  });
}

#define INSTANTIATE(T)                                                                                     \
  template void round_initial_weights<T>(const RunConfig&, std::span<const ParameterRun>, Parameters<T>&); \
  template void round_state<T>(const RunConfig&, std::int64_t, std::span<const ParameterRun>, Parameters<T>&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace moescope
