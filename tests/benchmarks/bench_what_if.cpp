// Time of the strip What if: 336 formats for a 1024 x 1024 tensor. Limit: 100 ms on two threads.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "core/numerics/what_if.h"

using namespace moescope;

namespace {

void what_if_strip(benchmark::State& state) {
  const auto side = static_cast<std::size_t>(state.range(0));
  std::vector<float> values(side * side);
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  for (float& v : values) v = normal(generator);
  for (auto _ : state) benchmark::DoNotOptimize(what_if({values.data(), side, side, side}));
}
BENCHMARK(what_if_strip)->Arg(256)->Arg(1024)->Arg(2048)->Unit(benchmark::kMillisecond)->UseRealTime()->Repetitions(5);

}  // namespace

BENCHMARK_MAIN();
