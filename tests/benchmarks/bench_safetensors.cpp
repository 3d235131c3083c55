// Time to open and to write a .safetensors file, by the number of its tensors.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/files/tensors/safetensors.h"

namespace {

using namespace moescope;

std::string path_of(std::int64_t tensors) {
  return (std::filesystem::temp_directory_path() / ("moescope_bench_" + std::to_string(tensors) + ".safetensors"));
}

void write_tensors(std::int64_t tensors) {
  std::vector<TensorSpec> specs;
  for (std::int64_t i = 0; i < tensors; ++i) specs.push_back({"layers." + std::to_string(i) + ".w", DType::f32, {1}});
  SafetensorsStream stream(path_of(tensors), specs, {});
  stream.append(std::vector<std::byte>(static_cast<std::size_t>(tensors) * 4));
  stream.finish();
}

void BM_Write(benchmark::State& state) {
  for (auto _ : state) write_tensors(state.range(0));
  std::filesystem::remove(path_of(state.range(0)));
}

void BM_Open(benchmark::State& state) {
  write_tensors(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(SafetensorsFile(path_of(state.range(0))).tensors().size());
  std::filesystem::remove(path_of(state.range(0)));
}

BENCHMARK(BM_Write)->Arg(40'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Open)->Arg(40'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
