// Four runs in lock-step compared with one run of the same config: bench_lock_step [preset ...] [--steps N]
//
// Frames with all statistics are appended to histories in memory. One run and four runs step alternately, so that a
// busy machine slows both equally. Prints medians. Limit: four runs take 4.1 times as long as one.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "app/program/program_start.h"
#include "core/config/config_toml.h"
#include "core/training/engine/engine.h"
#include "tests/benchmarks/bench_measures.h"
#include "tests/support/engine_frames.h"

namespace moescope {
namespace {

std::unique_ptr<Engine> runs_of(const RunConfig& config, int count) {
  const std::vector<RunConfig> configs(static_cast<std::size_t>(count), config);
  return std::make_unique<Engine>(std::vector<Trainer>(configs.begin(), configs.end()));
}

double step_seconds(Engine& runs) {
  const auto start = std::chrono::steady_clock::now();
  train_until(runs, runs.next_step() + 1);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void bench(const std::string& name, const RunConfig& config, int steps) {
  const auto one = runs_of(config, 1), four = runs_of(config, 4);
  std::vector<double> one_s, four_s;
  for (int step = -2; step < steps; ++step) {
    const double a = step_seconds(*one), b = step_seconds(*four);
    if (step >= 0) {
      one_s.push_back(a);
      four_s.push_back(b);
    }
  }
  std::printf("%-10s one %8.2f ms/step   four %8.2f ms/step   %.2fx\n", name.c_str(), median(one_s) * 1e3,
              median(four_s) * 1e3, median(four_s) / median(one_s));
  std::fflush(stdout);
}

}  // namespace
}  // namespace moescope

int main(int argc, char** argv) {
  using namespace moescope;
  std::printf("%s\n", start_with_fast_kernels(argv).c_str());
  std::vector<std::string> names;
  int steps = 9;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--steps") && i + 1 < argc)
      steps = std::max(1, std::atoi(argv[++i]));
    else
      names.emplace_back(argv[i]);
  }
  if (names.empty()) names = {"nano", "mini-v3"};
  for (const std::string& name : names) {
    const ParsedConfig preset = load_preset(name);
    if (!preset.problems.empty()) {
      std::fprintf(stderr, "bench_lock_step: no preset \"%s\"\n", name.c_str());
      return 2;
    }
    bench(name, preset.config, steps);
  }
}
