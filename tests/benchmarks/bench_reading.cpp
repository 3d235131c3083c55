// Speed of reading logs and recordings of large runs. MB/s are bytes of the log divided by the CPU time of all threads.
// Opening a recording is measured in wall time.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/files/whole_file.h"
#include "core/logs/follower.h"
#include "core/logs/open_runs.h"
#include "core/recording/recording.h"
#include "tests/support/processor_time.h"

namespace moescope {
namespace {

constexpr int kExperts = 256, kTopK = 8, kFirstMoeLayer = 3;
constexpr std::int64_t kTokens = 16384;

std::string path_of(const char* name) {
  return std::filesystem::temp_directory_path() / (std::string("moescope_bench_reading_") + name);
}

// Returns an uneven load whose sum is the number of slots of a step.
std::vector<std::uint32_t> loads(std::mt19937& rng) {
  constexpr auto kSlots = static_cast<std::uint32_t>(kTokens * kTopK);
  std::vector<std::uint32_t> counts(kExperts, kSlots / kExperts);
  for (int i = 0; i < 4 * kExperts; ++i) {
    std::uint32_t& from = counts[rng() % kExperts];
    const std::uint32_t moved = std::min<std::uint32_t>(from, rng() % 128);
    from -= moved;
    counts[rng() % kExperts] += moved;
  }
  return counts;
}

// A log of 2,000 steps x 58 layers x 256 experts in the format of Python's json.dumps(), 150 MB.
class Log {
 public:
  static constexpr int kSteps = 2000, kLayers = 58;
  Log() {
    WholeFile file(path());
    file.write(R"({"run": "bench", "layers": 61, "experts": 256, "top_k": 8, "tokens_per_step": 16384})"
               "\n");
    std::mt19937 rng(1);
    for (int step = 0; step < kSteps; ++step) file.write(line(step, rng));
    file.finish();
  }
  ~Log() { std::filesystem::remove(path()); }
  static std::string path() { return path_of("log.jsonl"); }
  static std::int64_t bytes() { return static_cast<std::int64_t>(std::filesystem::file_size(path())); }
  static std::int64_t lines() { return kSteps + 1; }

 private:
  static std::string line(int step, std::mt19937& rng) {
    std::string text = "{\"step\": " + std::to_string(step) + ", \"loss\": " + std::to_string(3 + 1e-4 * step) +
                       ", \"grad_norm\": 0.51, \"lr\": 0.0003, \"routers\": [";
    for (int layer = 0; layer < kLayers; ++layer) {
      text += (layer ? ", {\"layer\": " : "{\"layer\": ") + std::to_string(kFirstMoeLayer + layer) +
              ", \"tokens_per_expert\": [";
      for (const std::uint32_t n : loads(rng)) text += std::to_string(n) + ", ";
      text.replace(text.size() - 2, 2, "]}");
    }
    return text + "]}\n";
  }
};

const Log& log_file() {
  static const Log log;
  return log;
}

// Returns the CPU time of child processes that have ended.
template <class Read>
void reads_log(benchmark::State& state, int processes, Read read) {
  log_file();
  for (auto _ : state) {
    const double before = processor_seconds(processes);
    read();
    state.SetIterationTime(processor_seconds(processes) - before);
  }
  state.SetBytesProcessed(state.iterations() * Log::bytes());
}

void import_log(benchmark::State& state) {
  const std::string out = path_of("imported.moescope");
  const std::string command = std::string(MOESCOPE_CLI) + " import --quiet --overwrite -o " + out + " " + Log::path();
  reads_log(state, RUSAGE_CHILDREN, [&] {
    if (std::system(command.c_str()) != 0) state.SkipWithError("moescope-cli import failed");
  });
  std::filesystem::remove(out);
}

void open_log(benchmark::State& state) {
  reads_log(state, RUSAGE_SELF, [] { benchmark::DoNotOptimize(open_runs({Log::path()}, {}, 4)); });
}

void follow_log(benchmark::State& state) {
  reads_log(state, RUSAGE_SELF, [] {
    const Follower follower(Log::path());
    while (follower.amount() != std::to_string(Log::lines()) + " lines")
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
}

BENCHMARK(import_log)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(open_log)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(follow_log)->UseManualTime()->Unit(benchmark::kMillisecond);

// A recording of 10,000 steps x 61 layers x 256 experts. 64 frames repeat with new step numbers.
class Recording {
 public:
  static constexpr int kSteps = 10000, kLayers = 61, kFrames = 64;
  Recording() {
    RecordingWriter writer(path());
    RunInfo info;
    info.name = "bench";
    info.n_layers = kFirstMoeLayer + kLayers;
    for (int layer = 0; layer < kLayers; ++layer) info.moe_layers.push_back(kFirstMoeLayer + layer);
    info.n_experts = kExperts;
    info.top_k = kTopK;
    info.tokens_per_step = kTokens;
    writer.add_run(info);
    const std::vector<TelemetryFrame> frames = sample(info);
    std::vector<std::shared_ptr<const TelemetryFrame>> batch;
    for (int step = 0; step < kSteps; ++step) {
      auto frame = std::make_shared<TelemetryFrame>(frames[static_cast<std::size_t>(step % kFrames)]);
      frame->step = step;
      batch.push_back(std::move(frame));
      if (batch.size() < kFrames && step + 1 < kSteps) continue;
      writer.write(batch);
      batch.clear();
    }
  }
  ~Recording() { std::filesystem::remove(path()); }
  static std::string path() { return path_of("recording.moescope"); }

 private:
  static std::vector<TelemetryFrame> sample(const RunInfo& info) {
    std::mt19937 rng(1);
    std::uniform_real_distribution<float> value(0, 1);
    std::vector<TelemetryFrame> frames(kFrames);
    for (TelemetryFrame& frame : frames) {
      for (const auto& figure : kFrameFigures) frame.*figure.member = value(rng);
      for (const int layer : info.moe_layers) {
        RouterFrame& router = frame.routers.emplace_back();
        router.layer = layer;
        router.tokens_per_expert = loads(rng);
        for (const auto& figure : kRouterFigures) router.*figure.member = value(rng);
      }
    }
    return frames;
  }
};

void opens_recording(benchmark::State& state, bool glance) {
  static const Recording recording;
  for (auto _ : state) {
    const double before = processor_seconds();
    ImportOptions options;
    options.glance = glance;
    benchmark::DoNotOptimize(open_runs({Recording::path()}, options, 4));
    state.counters["cpu_s"] = processor_seconds() - before;
  }
}
BENCHMARK_CAPTURE(opens_recording, first_look, true)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(opens_recording, whole, false)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace moescope

BENCHMARK_MAIN();
