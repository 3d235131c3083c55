// Time of the history and the recording, with the limits that the screen and the trainer set.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <random>

#include "core/frame/router_stats.h"
#include "core/recording/frame_sink.h"
#include "tests/support/sample_frames.h"

namespace moescope {
namespace {

using FramePtr = std::shared_ptr<const TelemetryFrame>;

// One MoE layer with 8 experts; 5 MoE layers with 32 experts; the largest supported shape.
constexpr SampleShape kNano{1, 8, 8, 8, 18};
constexpr SampleShape kMiniV3{5, 32, 8, 8, 18};
constexpr SampleShape kV3{61, 256, 8, 8, 0};

std::vector<FramePtr> sample_run(SampleShape shape, int steps) {
  std::mt19937 rng(1);
  std::vector<FramePtr> frames;
  for (int step = 0; step < steps; ++step) {
    frames.push_back(std::make_shared<const TelemetryFrame>(sample_frame(step, shape, rng)));
  }
  return frames;
}

// Returns a history of 61 layers x 256 experts x 10,000 steps within the default budget. Eight frames repeat with new
// step numbers.
const History& large_history() {
  static const auto kHistory = [] {
    auto history = std::make_unique<History>(sample_info(kV3));
    const auto frames = sample_run(kV3, 8);
    for (int step = 0; step < 10000; ++step) {
      auto frame = std::make_shared<TelemetryFrame>(*frames[step % 8]);
      frame->step = step;
      history->append(std::move(frame));
    }
    return history;
  }();
  return *kHistory;
}

void utilisation_256_by_10000_into_800(benchmark::State& state) {  // limit: 16 ms
  const History& history = large_history();
  for (auto _ : state) benchmark::DoNotOptimize(history.utilisation(30, {0, 9999}, 800));
  state.counters["array_MiB"] = static_cast<double>(history.array_bytes() >> 20);
  state.counters["kept_every"] = history.kept_every();
}
BENCHMARK(utilisation_256_by_10000_into_800)->Unit(benchmark::kMillisecond);

void frame_at_61_by_256(benchmark::State& state) {  // limit for scrubbing, painting included: 16 ms
  const History& history = large_history();
  std::int64_t step = 0;
  for (auto _ : state) benchmark::DoNotOptimize(history.frame_at(step = (step + 3571) % 10000));
}
BENCHMARK(frame_at_61_by_256)->Unit(benchmark::kMillisecond);

const History& long_history() {
  static const auto kHistory = [] {
    auto history = std::make_unique<History>(sample_info({0, 0, 0, 1, 0}));
    std::mt19937 rng(1);
    for (int step = 0; step < 1'000'000; ++step) {
      auto frame = std::make_shared<TelemetryFrame>();
      frame->step = step;
      frame->ce_loss = std::uniform_real_distribution<float>(0, 5)(rng);
      history->append(std::move(frame));
    }
    return history;
  }();
  return *kHistory;
}

void series_1e6_into_800(benchmark::State& state) {  // limit: 0.3 ms
  const History& history = long_history();
  for (auto _ : state) benchmark::DoNotOptimize(history.series(Metric::ce_loss, kWholeRun, {0, 999'999}, 800));
}
BENCHMARK(series_1e6_into_800)->Unit(benchmark::kMillisecond);

void waterfall_of_mini_v3_5000_into_800(benchmark::State& state) {
  History history(sample_info(kMiniV3));
  const auto frames = sample_run(kMiniV3, 16);
  for (int step = 0; step < 5000; ++step) {
    auto frame = std::make_shared<TelemetryFrame>(*frames[step % 16]);
    frame->step = step;
    history.append(std::move(frame));
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        history.scale_waterfall({5, Gemm::expert_w3, OperandRole::w, Direction::forward}, {0, 4999}, 800));
  }
  state.counters["KiB_a_step"] = static_cast<double>(history.array_bytes()) / 5000 / 1024;
  state.counters["frame_KiB"] = static_cast<double>(sizeof(QuantFrame) * frames[0]->quants.size()) / 1024;
}
BENCHMARK(waterfall_of_mini_v3_5000_into_800)->Unit(benchmark::kMillisecond);

void append(benchmark::State& state, SampleShape shape) {
  auto frames = sample_run(shape, 16);
  History history(sample_info(shape));
  std::int64_t step = 0;
  for (auto _ : state) {
    state.PauseTiming();
    auto frame = std::make_shared<TelemetryFrame>(*frames[step % 16]);
    frame->step = step++;
    state.ResumeTiming();
    history.append(std::move(frame));
  }
}
BENCHMARK_CAPTURE(append, nano, kNano)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(append, mini_v3, kMiniV3)->Unit(benchmark::kMicrosecond);

// Frames per second written to a recording. The argument is the number of frames per transaction; it is 1 for a slow
// trainer, whose steps are written one by one.
void record(benchmark::State& state, SampleShape shape) {
  const auto path = std::filesystem::temp_directory_path() / "moescope_bench.moescope";
  auto frames = sample_run(shape, 64);
  const auto batch_size = static_cast<std::size_t>(state.range(0));
  std::int64_t step = 0;
  {
    RecordingWriter writer(path);
    writer.add_run(sample_info(shape));
    std::vector<FramePtr> batch;
    for (auto _ : state) {
      state.PauseTiming();
      batch.clear();
      for (std::size_t i = 0; i < batch_size; ++i) {
        auto frame = std::make_shared<TelemetryFrame>(*frames[step % 64]);
        frame->step = step++;
        batch.push_back(std::move(frame));
      }
      state.ResumeTiming();
      writer.write(batch);
    }
  }
  state.SetItemsProcessed(step);
  state.counters["bytes_a_frame"] = static_cast<double>(std::filesystem::file_size(path)) / static_cast<double>(step);
  std::filesystem::remove(path);
}
BENCHMARK_CAPTURE(record, nano, kNano)->Arg(1)->Arg(16)->Unit(benchmark::kMicrosecond)->UseRealTime();
BENCHMARK_CAPTURE(record, mini_v3, kMiniV3)->Arg(1)->Arg(16)->Unit(benchmark::kMicrosecond)->UseRealTime();

void load_mini_v3_recording_of_2000(benchmark::State& state) {
  const auto path = std::filesystem::temp_directory_path() / "moescope_bench.moescope";
  {
    RecordingWriter writer(path);
    writer.add_run(sample_info(kMiniV3));
    const auto frames = sample_run(kMiniV3, 2000);
    writer.write(frames);
  }
  const RecordingReader reader(path);
  for (auto _ : state) benchmark::DoNotOptimize(reader.load(0));
  std::filesystem::remove(path);
}
BENCHMARK(load_mini_v3_recording_of_2000)->Unit(benchmark::kMillisecond);

// Time of FrameSink::publish() in the training thread, which moves the frame into a list.
void publish(benchmark::State& state) {
  FrameSink sink("");
  sink.add_run(sample_info(kNano));
  const auto frames = sample_run(kNano, 16);
  std::int64_t step = 0;
  for (auto _ : state) {
    state.PauseTiming();
    TelemetryFrame frame = *frames[step % 16];
    frame.step = step++;
    sink.flush();
    state.ResumeTiming();
    sink.publish(std::move(frame));
  }
}
BENCHMARK(publish)->Unit(benchmark::kMicrosecond)->Iterations(2000);

void noise_floor_of_1024_tokens_top2_of_16(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(max_vio_noise_floor(1024, 2, 16));
}
BENCHMARK(noise_floor_of_1024_tokens_top2_of_16)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace moescope

BENCHMARK_MAIN();
