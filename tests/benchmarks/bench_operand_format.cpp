// Speed of quantize_operand() with all statistics, relative to the speed of copying the tensor: 4096 x 4096 floats on
// one and two threads, and 256 x 128 floats in cache on one thread. "of_copy" is the median time of the copy divided by
// the median time of quantize_operand(); both alternate on the same number of threads. "hadamard" rotates blocks of 16,
// as the published recipe of NVFP4 does.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/numerics/recipes.h"
#include "tests/benchmarks/bench_measures.h"

using namespace moescope;

namespace {

struct Size {
  std::size_t rows, cols;
  int repeats;  // calls per measurement
};

// Values that begin at a cache line, like the tensors of the program.
class Tensor {
 public:
  explicit Tensor(std::size_t count) : values_(static_cast<float*>(std::aligned_alloc(64, count * sizeof(float)))) {
    std::fill_n(data(), count, 0.0f);
  }
  float* data() { return values_.get(); }
  const float* data() const { return values_.get(); }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> values_;
};

Tensor normal_values(std::size_t count) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  Tensor values(count);
  for (std::size_t i = 0; i < count; ++i) values.data()[i] = normal(generator);
  return values;
}

// Returns the CPU time of this thread in seconds. Unlike wall time, it does not include the time of other processes.
double now_s() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double seconds(int repeats, auto work) {
  const double start = now_s();
  for (int i = 0; i < repeats; ++i) {
    work();
    benchmark::ClobberMemory();
  }
  return (now_s() - start) / repeats;
}

void quantize(benchmark::State& state, OperandFormat format, Size size, BlockAxis axis) {
  const std::size_t count = size.rows * size.cols;
  const Tensor in = normal_values(count);
  Tensor out(count);
  std::vector<double> copy_s, work_s;
  for (auto _ : state) {
    copy_s.push_back(seconds(size.repeats, [&] { std::memcpy(out.data(), in.data(), count * sizeof(float)); }));
    work_s.push_back(seconds(size.repeats, [&] {
      QuantSums sums;
      quantize_operand({{in.data(), size.rows, size.cols, size.cols}, format, axis, {}, &sums},
                       {out.data(), size.rows, size.cols});
      benchmark::DoNotOptimize(sums);
    }));
    state.SetIterationTime(work_s.back());
  }
  const double copy = median(copy_s), work = median(work_s);
  state.counters["ns/element"] = work / static_cast<double>(count) * 1e9;
  state.counters["of_copy"] = copy / work;
}

// Quantizes `threads` stripes of rows in parallel, each as a separate operand; the copy is divided in the same way.
void quantize_on_threads(benchmark::State& state, OperandFormat format, BlockAxis axis, std::size_t threads) {
  constexpr std::size_t kSide = 4096;
  const Tensor in = normal_values(kSide * kSide);
  Tensor out(kSide * kSide);
  const std::size_t rows = kSide / threads;
  const auto on_stripes = [&](const auto& work) {
    const auto start = std::chrono::steady_clock::now();
    {
      std::vector<std::jthread> other_threads;
      for (std::size_t t = 1; t < threads; ++t)
        other_threads.emplace_back([&work, t, rows] { work(t * rows * kSide); });
      work(0);
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::vector<double> copy_s, work_s;
  for (auto _ : state) {
    copy_s.push_back(on_stripes(
        [&](std::size_t at) { std::memcpy(out.data() + at, in.data() + at, rows * kSide * sizeof(float)); }));
    work_s.push_back(on_stripes([&](std::size_t at) {
      QuantSums sums;
      quantize_operand({{in.data() + at, rows, kSide, kSide}, format, axis, {}, &sums}, {out.data() + at, rows, kSide});
      benchmark::DoNotOptimize(sums);
    }));
    state.SetIterationTime(work_s.back());
    benchmark::ClobberMemory();
  }
  state.counters["of_copy"] = median(copy_s) / median(work_s);
}

const char* axis_name(BlockAxis axis) {
  return axis == BlockAxis::row ? "/rows" : "/columns";
}

void add(const std::string& name, OperandFormat format) {
  for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column}) {
    for (const std::size_t threads : {1, 2})
      benchmark::RegisterBenchmark((name + axis_name(axis) + "/threads:" + std::to_string(threads)).c_str(),
                                   quantize_on_threads, format, axis, threads)
          ->Iterations(7)
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    benchmark::RegisterBenchmark((name + axis_name(axis) + "/256x128").c_str(), quantize, format, Size{256, 128, 100},
                                 axis)
        ->Iterations(15)
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (const RecipeInfo& info : recipes())
    if (info.recipe != Recipe::fp32) add(info.name, recipe_format(info.recipe, Direction::forward, OperandRole::x));
  add("fp8_deepseek_128/w", recipe_format(Recipe::fp8_deepseek_128, Direction::forward, OperandRole::w));
  add("mxfp8_e5m2_grad/dy", recipe_format(Recipe::mxfp8_e5m2_grad, Direction::dgrad, OperandRole::dy));
  for (const Recipe recipe : {Recipe::fp8_tensorwise, Recipe::fp8_rowwise, Recipe::fp8_deepseek_128,
                              Recipe::mxfp8_rceil, Recipe::mxfp4, Recipe::nvfp4}) {
    const std::string name = recipe_info(recipe).name;
    const auto format = [&](Rounding rounding, int hadamard) {
      OperandFormat result = recipe_format(recipe, Direction::forward, OperandRole::x);
      result.rounding = rounding;
      result.hadamard = hadamard;
      return result;
    };
    add(name + "/stochastic", format(Rounding::stochastic, 0));
    add(name + "/hadamard", format(Rounding::nearest, 16));
    add(name + "/stochastic_hadamard", format(Rounding::stochastic, 16));
  }
  for (const int block : {8, 24, 48}) {  // not multiples of the vector length
    OperandFormat format = recipe_format(Recipe::mxfp8_rceil, Direction::forward, OperandRole::x);
    format.block = block;
    add("mxfp8_rceil/block:" + std::to_string(block), format);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
