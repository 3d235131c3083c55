// quantize_operand with all statistics against a copy of the same matrix, one thread. "of_copy" is its speed relative
// to the copy that the same process made in turns with it; medians.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/numerics/recipes.h"

using namespace moescope;

namespace {

struct Size {
  std::size_t rows, cols;
  int repeats;  // within one timing
};

std::vector<float> normal_values(std::size_t count) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(generator);
  return values;
}

// Of this thread's processor time: others may be using the machine.
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

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

void quantize(benchmark::State& state, OperandFormat format, Size size, BlockAxis axis) {
  const std::size_t count = size.rows * size.cols;
  const std::vector<float> in = normal_values(count);
  std::vector<float> out(count);
  std::vector<double> copy_s, work_s;
  for (auto _ : state) {
    copy_s.push_back(seconds(size.repeats, [&] { std::memcpy(out.data(), in.data(), count * sizeof(float)); }));
    work_s.push_back(seconds(size.repeats, [&] {
      QuantSums sums;
      quantize_operand(format, {in.data(), size.rows, size.cols, size.cols}, axis, {}, out.data(), size.cols, &sums);
      benchmark::DoNotOptimize(sums);
    }));
    state.SetIterationTime(work_s.back());
  }
  const double copy = median(copy_s), mine = median(work_s);
  state.counters["ns/element"] = mine / static_cast<double>(count) * 1e9;
  state.counters["of_copy"] = copy / mine;
}

void add(const std::string& name, OperandFormat format) {
  for (const Size size : {Size{4096, 4096, 1}, Size{256, 128, 100}})
    for (const BlockAxis axis : {BlockAxis::row, BlockAxis::column})
      benchmark::RegisterBenchmark((name + "/" + std::to_string(size.rows) + "x" + std::to_string(size.cols) +
                                    (axis == BlockAxis::row ? "/rows" : "/columns"))
                                       .c_str(),
                                   quantize, format, size, axis)
          ->Iterations(size.repeats > 1 ? 15 : 5)
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  for (const Recipe recipe : {Recipe::bf16, Recipe::fp8_tensorwise, Recipe::fp8_rowwise, Recipe::fp8_deepseek_128,
                              Recipe::mxfp8_rceil, Recipe::mxfp4, Recipe::nvfp4})
    add(recipe_info(recipe).name, recipe_format(recipe, Direction::forward, Operand::x));
  add("fp8_deepseek_128/w", recipe_format(Recipe::fp8_deepseek_128, Direction::forward, Operand::w));
  for (const Recipe recipe : {Recipe::mxfp8_rceil, Recipe::nvfp4}) {
    const std::string name = recipe_info(recipe).name;
    add(name + "/stochastic", recipe_format(recipe, Direction::forward, Operand::x, {Rounding::stochastic, 0}));
    add(name + "/hadamard", recipe_format(recipe, Direction::forward, Operand::x, {Rounding::nearest, 16}));
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
