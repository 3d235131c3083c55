// Share of equal runs that are called different: bench_verdicts [preset] [--set KEY=VALUE ...] [--steps N] [--seeds N]
//                                                                [--twins N] [--first SEED] [--means] [--simulated]
//
// For each seed, run A, the judged run and the noise twins of A train in lock-step. They start from the same weights,
// perturbed by up to one unit in the last place, so that they differ from A by chance alone. The judged run is judged
// by the loss that the settings select, by each of the two losses, and by the loss with the narrower interval. 300
// steps of nano take 7 seconds per seed. --means prints the rows of tests/data/equal_runs_*.csv instead: the flip rate
// of each run in the last half of the steps, and the means of its losses minus those of run A over four batches of
// these steps. --simulated prints how many of the made-up equal runs of made_up_losses.h are called different, and how
// many are found above 0 if they have a gap of four and of eight standard deviations of one run's mean; --seeds is the
// number of comparisons.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "app/program/program_start.h"
#include "core/config/config_field.h"
#include "core/config/config_toml.h"
#include "core/findings/comparison/verdict_words.h"
#include "core/training/engine/engine.h"
#include "tests/benchmarks/verdict_power.h"
#include "tests/support/engine_frames.h"
#include "tests/support/made_up_losses.h"

namespace moescope {
namespace {

struct Asked {
  RunConfig config;
  int seeds = 20, twins = 1;
  bool means = false, simulated = false;
};

// Trains run A, the judged run and the noise twins; returns their histories in this order.
std::vector<HistoryPtr> train(const RunConfig& config, int twins) {
  std::vector<Trainer> trainers;
  for (int run = 0; run < twins + 2; ++run) {
    RunConfig equal = config;
    equal.perturbation = run;
    equal.name += "-" + std::to_string(run);
    trainers.emplace_back(equal);
  }
  Engine engine(std::move(trainers));
  train_until(engine, config.optimizer.total_steps);
  return {engine.histories().begin(), engine.histories().end()};
}

struct Count {
  const char* counted_runs;
  int different = 0, judged = 0;
  void add(const Conclusion& found) {
    if (found.verdict < Verdict::equal) return;
    ++judged;
    different += says_different(found);
  }
};

// Prints the share of runs that were called different, with its 95 % Wilson interval.
void print(const Count& count) {
  if (count.judged == 0) {
    std::printf("%-24s no verdict\n", count.counted_runs);
    return;
  }
  const double n = count.judged, share = count.different / n, z2 = 1.96 * 1.96;
  const double centre = (share + z2 / (2 * n)) / (1 + z2 / n);
  const double half_width = std::sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n);
  std::printf("%-24s %3d of %3d called different: %4.1f %% (%.1f to %.1f)\n", count.counted_runs, count.different,
              count.judged, 100 * share, 100 * std::max(0.0, centre - half_width), 100 * (centre + half_width));
}

double mean_of(const History& run, Metric metric, StepRange steps) {
  double sum = 0;
  int count = 0;
  for (const float value : run.values_in(metric, kWholeRun, steps))
    if (std::isfinite(value)) {
      sum += static_cast<double>(value);
      ++count;
    }
  return sum / count;
}

// Prints the mean flip rate of a run over the last half of the steps and, for each loss, its means over four batches of
// these steps minus those of run A.
void print_means(const History& a, const History& run) {
  const std::int64_t end = a.steps().last + 1;
  std::printf(",%.3f", mean_of(run, Metric::flip_rate, {end / 2, end - 1}));
  for (const Metric loss : {Metric::ce_loss, Metric::val_loss})
    for (int b = 0; b < 4; ++b) {
      const StepRange batch{end / 2 + slice_begin({0, end / 2 - 1}, 4, b),
                            end / 2 + slice_begin({0, end / 2 - 1}, 4, b + 1) - 1};
      std::printf(",%.6f", mean_of(run, loss, batch) - mean_of(a, loss, batch));
    }
}

void bench(const Asked& request) {
  Count decided{"as the settings say"}, training{"training loss"}, validation{"validation loss"},
      narrower{"the narrower"};
  for (int seed = 0; seed < request.seeds; ++seed) {
    RunConfig config = request.config;
    config.seed += seed;
    const std::vector<HistoryPtr> runs = train(config, request.twins);
    std::vector<PairedRun> twins;
    for (std::size_t run = 2; run < runs.size(); ++run) twins.push_back({runs[run]});
    if (request.means) {
      std::printf("%lld", static_cast<long long>(config.seed));
      for (std::size_t run = 1; run < runs.size(); ++run) print_means(*runs[0], *runs[run]);
      std::printf("\n");
      std::fflush(stdout);
      continue;
    }
    const auto by = [&](std::optional<Metric> loss) { return conclude(runs[0], {runs[1]}, twins, {}, loss); };
    const Conclusion training_verdict = by(Metric::ce_loss), validation_verdict = by(Metric::val_loss);
    decided.add(by({}));
    training.add(training_verdict);
    validation.add(validation_verdict);
    narrower.add(validation_verdict.half_width < training_verdict.half_width ? validation_verdict : training_verdict);
    std::printf("seed %lld: %s\n", static_cast<long long>(config.seed), verdict_sentence(by({})).c_str());
    std::fflush(stdout);
  }
  if (request.means) return;
  for (const Count* count : {&decided, &training, &validation, &narrower}) print(*count);
}

// Returns the standard deviation of a run's mean loss over the last half of the steps.
double deviation_of_mean(const Luck& luck, std::size_t steps, std::mt19937& random) {
  constexpr int kRuns = 2000;
  double squares = 0;
  for (int run = 0; run < kRuns; ++run) {
    const std::vector<double> values = deviations(luck, steps, random);
    double sum = 0;
    for (std::size_t step = steps / 2; step < steps; ++step) sum += 0.01 * values[step];
    squares += std::pow(sum / static_cast<double>(steps - steps / 2), 2);
  }
  return std::sqrt(squares / kRuns);
}

void simulate(const Asked& request) {
  const auto steps = static_cast<std::size_t>(request.config.optimizer.total_steps);
  std::mt19937 random(static_cast<std::mt19937::result_type>(request.config.seed));
  std::printf("%d twins, %zu steps, %d comparisons; %%\n%-26s %9s %9s %9s\n", request.twins, steps, request.seeds, "",
              "different", "found 4", "found 8");
  for (const Luck& luck : kLucks) {
    const double deviation = deviation_of_mean(luck, steps, random);
    int different = 0, found_4 = 0, found_8 = 0;
    for (int trial = 0; trial < request.seeds; ++trial) {
      const HistoryPtr a = lucky_run(luck, steps, random);
      std::vector<PairedRun> twins;
      for (int twin = 0; twin < request.twins; ++twin) twins.push_back({lucky_run(luck, steps, random)});
      const auto with_gap = [&](double gap) { return conclude(a, {lucky_run(luck, steps, random, gap)}, twins); };
      const auto is_above = [](const Conclusion& c) { return c.gap > c.half_width; };
      different += says_different(with_gap(0));
      found_4 += is_above(with_gap(4 * deviation));
      found_8 += is_above(with_gap(8 * deviation));
    }
    const double percent = 100.0 / request.seeds;
    std::printf("%-26s %9.1f %9.1f %9.1f\n", luck.name, percent * different, percent * found_4, percent * found_8);
    std::fflush(stdout);
  }
}

int refuse(const std::string& problem) {
  std::fprintf(stderr, "bench_verdicts: %s\n", problem.c_str());
  return 2;
}

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  std::stringstream text(list);
  for (std::string part; std::getline(text, part, ',');) parts.push_back(part);
  return parts;
}

// Reads one option of --power with its value; returns false if there is no such option or value.
bool read_power_option(const std::string& option, const std::string& value, PowerRequest& request) {
  if (option == "--steps") {
    request.steps.clear();
    for (const std::string& steps : parts_of(value)) request.steps.push_back(std::atoll(steps.c_str()));
  } else if (option == "--kinds") {
    request.kinds.clear();
    for (const std::string& name : parts_of(value)) {
      const auto* kind = std::ranges::find(kPowerKinds, name);
      if (kind == kPowerKinds.end()) return false;
      request.kinds.push_back(static_cast<PowerKind>(kind - kPowerKinds.begin()));
    }
  } else if (option == "--recipes") {
    request.recipes.clear();
    for (const std::string& name : parts_of(value)) {
      const std::optional<Recipe> recipe = recipe_named(name);
      if (!recipe) return false;
      request.recipes.push_back(*recipe);
    }
  } else if (option == "--candidates") {
    request.candidates = std::atoi(value.c_str());
  } else if (option == "--seconds") {
    request.seconds = std::atof(value.c_str());
  } else {
    return false;
  }
  return true;
}

}  // namespace
}  // namespace moescope

int main(int argc, char** argv) {
  using namespace moescope;
  std::printf("%s\n", start_with_fast_kernels(argv).c_str());
  Asked request;
  PowerRequest power;
  std::string preset = "nano";
  std::vector<std::string> set;
  std::int64_t steps = 300, first = 1;
  const bool asks_power =
      std::any_of(argv, argv + argc, [](const char* text) { return !std::strcmp(text, "--power"); });
  for (int i = 1; i < argc; ++i) {
    const auto is = [&](const char* option) { return !std::strcmp(argv[i], option) && i + 1 < argc; };
    if (!std::strcmp(argv[i], "--power"))
      continue;
    else if (asks_power && i + 1 < argc && read_power_option(argv[i], argv[i + 1], power))
      ++i;
    else if (!std::strcmp(argv[i], "--experts-only"))
      power.experts_only = true;
    else if (!std::strcmp(argv[i], "--means"))
      request.means = true;
    else if (!std::strcmp(argv[i], "--simulated"))
      request.simulated = true;
    else if (is("--set"))
      set.emplace_back(argv[++i]);
    else if (is("--steps"))
      steps = std::atoll(argv[++i]);
    else if (is("--seeds"))
      request.seeds = power.seeds = std::atoi(argv[++i]);
    else if (is("--twins"))
      request.twins = std::clamp(std::atoi(argv[++i]), 1, kMaxRuns - 2);
    else if (is("--first"))
      first = std::atoll(argv[++i]);
    else
      preset = argv[i];
  }
  const ParsedConfig parsed = load_preset(preset);
  if (!parsed.problems.empty()) return refuse("no preset \"" + preset + "\"");
  RunConfig config = parsed.config;
  if (asks_power) {
    PrecisionConfig& precision = config.precision;
    precision.experts = precision.shared_experts = precision.dense_ffn = precision.attention = precision.head =
        Recipe::bf16;
  } else {
    config.optimizer.total_steps = static_cast<int>(steps);
  }
  config.telemetry.quant_every = 1000;
  config.seed = first;
  for (const std::string& setting : set) {
    const std::size_t equals = std::min(setting.find('='), setting.size());
    const ConfigField* field = find_field(setting.substr(0, equals));
    if (!field || equals == setting.size())
      return refuse(setting + ": expected KEY=VALUE, such as precision.experts=mxfp8_rceil");
    field->set(config, parse_value(*field, setting.substr(equals + 1)));
  }
  if (asks_power) {
    power.config = config;
    VerdictPower measured(power);
    measured.measure();
    measured.print();
    return 0;
  }
  request.config = config;
  if (request.simulated)
    simulate(request);
  else
    bench(request);
}
