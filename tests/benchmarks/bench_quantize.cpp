// Speed of quantize-dequantize with all statistics, relative to the speed of copying the tensor: 4096 x 4096 floats on
// one and two threads. "of_copy" is the time of the copy divided by the time of the work on the same number of threads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/numerics/kernels/float_rounding.h"
#include "core/numerics/quantize.h"
#include "tests/support/every_format.h"

using namespace moescope;

namespace {

constexpr std::size_t kSide = 4096;
constexpr double kBytes = 2.0 * kSide * kSide * sizeof(float);  // read and written

struct Tensors {
  std::vector<float> in, out;
  Tensors() : in(kSide * kSide), out(kSide * kSide) {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    for (float& v : in) v = normal(generator);
  }
};
Tensors& tensors() {
  static Tensors t;
  return t;
}

// Calls `work(first_row, rows)` for one stripe of rows per thread, for the first stripe in this thread.
template <class Work>
void on_stripes(int threads, Work work) {
  const std::size_t rows = kSide / static_cast<std::size_t>(threads);
  std::vector<std::jthread> other_threads;
  for (int t = 1; t < threads; ++t) other_threads.emplace_back([=] { work(static_cast<std::size_t>(t) * rows, rows); });
  work(0, rows);
}

void copy_stripe(std::size_t row, std::size_t rows) {
  std::memcpy(tensors().out.data() + row * kSide, tensors().in.data() + row * kSide, rows * kSide * sizeof(float));
}

double seconds(auto work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Measures the copy and the work alternately, so that a busy machine slows both equally. Compares medians.
void run_against_copy(benchmark::State& state, int threads, auto work) {
  std::vector<double> copy_s, work_s;
  for (auto _ : state) {
    copy_s.push_back(seconds([&] { on_stripes(threads, copy_stripe); }));
    work_s.push_back(seconds([&] { on_stripes(threads, work); }));
    state.SetIterationTime(work_s.back());
    benchmark::ClobberMemory();
  }
  const auto median = [](std::vector<double>& v) {
    std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
    return v[v.size() / 2];
  };
  const double copy = median(copy_s), work_seconds = median(work_s);
  state.counters["GB/s"] = kBytes / work_seconds / 1e9;
  state.counters["copy_GB/s"] = kBytes / copy / 1e9;
  state.counters["of_copy"] = copy / work_seconds;
}

void quantize(benchmark::State& state, OperandFormat format, BlockAxis axis, bool statistics) {
  run_against_copy(state, static_cast<int>(state.range(0)), [=](std::size_t row, std::size_t rows) {
    QuantSums sums;
    quantize_operand(
        {{tensors().in.data() + row * kSide, rows, kSide, kSide}, format, axis, {}, statistics ? &sums : nullptr},
        {tensors().out.data() + row * kSide, rows, kSide});
    benchmark::DoNotOptimize(sums);
  });
}

void bf16(benchmark::State& state) {
  run_against_copy(state, static_cast<int>(state.range(0)), [](std::size_t row, std::size_t rows) {
    const float* in = tensors().in.data() + row * kSide;
    std::transform(in, in + rows * kSide, tensors().out.data() + row * kSide, bf16_rounded);
  });
}

// Quantizes a matrix of the size of an expert's, which stays in cache, as in training.
void small_matrix(benchmark::State& state, BlockAxis axis) {
  const Matrix<const float> in{tensors().in.data(), 128, 256, 256};
  QuantSums sums;
  for (auto _ : state)
    quantize_operand({in, mx_format(ElementFormat::e4m3), axis, {}, &sums},
                     {tensors().out.data(), in.rows, in.cols, 256});
  benchmark::DoNotOptimize(sums);
  state.counters["ns/element"] = benchmark::Counter(static_cast<double>(state.iterations()) * 128 * 256 * 1e-9,
                                                    benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void add(const std::string& name, OperandFormat format, BlockAxis axis, bool statistics) {
  benchmark::RegisterBenchmark(name.c_str(), quantize, format, axis, statistics)
      ->Arg(1)
      ->Arg(2)
      ->ArgName("threads")
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  for (const ElementFormat element : kEveryFormat) {
    const std::string name = traits(element).name;
    add(name + "/rceil/rows/statistics", mx_format(element), BlockAxis::row, true);
    add(name + "/rceil/columns/statistics", mx_format(element), BlockAxis::column, true);
  }
  add("e4m3/floor/rows/statistics", mx_format(ElementFormat::e4m3, ScaleRule::floor), BlockAxis::row, true);
  add("e4m3/rceil/rows/plain", mx_format(ElementFormat::e4m3), BlockAxis::row, false);
  add("e4m3/rceil/columns/plain", mx_format(ElementFormat::e4m3), BlockAxis::column, false);
  benchmark::RegisterBenchmark("bf16", bf16)
      ->Arg(1)
      ->Arg(2)
      ->ArgName("threads")
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("e4m3/128x256/rows", small_matrix, BlockAxis::row);
  benchmark::RegisterBenchmark("e4m3/128x256/columns", small_matrix, BlockAxis::column);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
