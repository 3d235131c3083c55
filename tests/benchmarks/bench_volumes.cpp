// Time to count the all-to-all volumes of one MoE layer: 16,384 tokens x top-8 of 256 experts over R ranks in nodes of
// 8, on one core. Limit: 1 ms per layer at 256 ranks. `uniform`: 8 of 256 experts at random; `limited`: 8 experts of 4
// of 8 groups of 32, like DeepSeek-V3's routing; `replicated`: uniform, over 32 ranks with one redundant expert each.
// `mini_v3_step` counts all MoE layers again after a real step; `of_step` is the time to count divided by the time of
// the step. Limit: 0.02.
#include <benchmark/benchmark.h>

#include <vector>

#include "app/program/program_start.h"
#include "core/cluster/ranks/routing_patterns.h"
#include "core/cluster/ranks/volumes.h"
#include "core/config/config_toml.h"
#include "core/training/trainer.h"
#include "tests/benchmarks/bench_measures.h"
#include "tests/support/processor_time.h"

using namespace moescope;

namespace {

constexpr int kTokens = 16384, kTopK = 8, kExperts = 256, kRanksPerNode = 8;

void count_all(benchmark::State& state, const Placement& placement, int groups) {
  const std::vector<std::int32_t> topk_TK =
      route_by_pattern({RoutingRule::grouped, 8, groups}, kTokens, kTopK, kExperts);
  for (auto _ : state) {
    VolumeFrame volume = count_volumes(topk_TK, kTopK, placement, kRanksPerNode);
    benchmark::DoNotOptimize(volume.copies_RR.data());
  }
  state.counters["per_copy"] = benchmark::Counter(
      static_cast<double>(topk_TK.size()), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void uniform(benchmark::State& state) {
  count_all(state, place_contiguous(kExperts, static_cast<int>(state.range(0))), 8);
}
void limited(benchmark::State& state) {
  count_all(state, place_contiguous(kExperts, static_cast<int>(state.range(0))), 4);
}
void replicated(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  const std::vector<std::uint64_t> load_E(kExperts, 1);
  count_all(state, place_balanced(load_E, ranks, {kExperts / ranks + 1, 1, kRanksPerNode}), 8);
}

void mini_v3_step(benchmark::State& state) {
  RunConfig config = load_preset("mini-v3").config;
  config.parallel.ranks = static_cast<int>(state.range(0));
  const auto data = open_dataset(config.data, config.seed);
  Trainer trainer(config);
  std::vector<double> step_s, count_s;
  for (auto _ : state) {
    const Batch batch = data->batch(trainer.steps_taken());
    const double start = processor_seconds();
    trainer.step(batch);
    const double counted_from = processor_seconds();
    for (const LayerRouting& r : trainer.routing())
      benchmark::DoNotOptimize(
          count_volumes(r.ids_TK, r.top_k, r.n_experts, config.parallel.ranks, config.parallel.ranks_per_node));
    count_s.push_back(processor_seconds() - counted_from);
    step_s.push_back(counted_from - start);
    state.SetIterationTime(count_s.back());
  }
  state.counters["of_step"] = median(count_s) / median(step_s);
}

BENCHMARK(uniform)->ArgName("ranks")->Arg(8)->Arg(64)->Arg(256)->Unit(benchmark::kMicrosecond);
BENCHMARK(limited)->ArgName("ranks")->Arg(8)->Arg(64)->Arg(256)->Unit(benchmark::kMicrosecond);
BENCHMARK(replicated)->ArgName("ranks")->Arg(32)->Unit(benchmark::kMicrosecond);
BENCHMARK(mini_v3_step)
    ->ArgName("ranks")
    ->Arg(8)
    ->Arg(32)
    ->Iterations(15)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace

int main(int argc, char** argv) {
  start_with_fast_kernels(argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
