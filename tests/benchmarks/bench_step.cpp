// Time of whole training steps: bench_step [shape ...] [--steps N] [--threads N]
//                       [--recipes | --recipes-everywhere | --units | --telemetry | --checkpoints] [--only RECIPE]
//                       [--each-step]
//
// --recipes: routed experts in every recipe, with statistics, compared with FP32; --recipes-everywhere: all weights.
// --units: all weights in BF16, MXFP8 and NVFP4 (stochastic, rotated) compared with FP32, and the matrix units in use.
// --only: only the recipe with this name, as it is printed: mxfp8_floor, "nvfp4 stochastic". With --units, it runs
// alone.
// --telemetry: all telemetry at the default cadence compared with none. --steps N should be at least 200, a full cycle.
// --each-step: prints a line after each step, for in_turns.py.
// --checkpoints: time to keep a checkpoint in memory, and its share of a step at the default cadence.
//
// A shape is S, M or L (byte-level models of growing width) or the name of a preset. Without an option, prints for each
// shape the time of FP32 and MXFP8 steps with telemetry and of FP32 steps without, and the peak of sgemm. The variants
// take their steps alternately, so that a busy machine slows all equally. FLOPs: 6 x active weights of matrices x
// tokens, plus attention, which counts as full.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "app/program/program_start.h"
#include "core/config/config_toml.h"
#include "core/model/layers/parameters.h"
#include "core/numerics/gemm.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/threads.h"
#include "core/training/trainer.h"
#include "tests/benchmarks/bench_measures.h"
#include "tests/support/processor_time.h"

namespace moescope {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

RunConfig shape(int dim, int layers, int dense, int heads, int kv_rank, int nope, int rope, int v, int experts,
                int top_k, int inter, int shared, int batch, int seq) {
  RunConfig c;
  c.model.dim = dim;
  c.model.n_layers = layers;
  c.model.n_dense_layers = 1;
  c.model.dense_inter = dense;
  c.model.n_heads = heads;
  c.model.kv_lora_rank = kv_rank;
  c.model.qk_nope_head_dim = nope;
  c.model.qk_rope_head_dim = rope;
  c.model.v_head_dim = v;
  c.model.n_experts = experts;
  c.model.moe_inter = inter;
  c.model.n_shared = shared;
  c.router.top_k = top_k;
  c.data.batch = batch;
  c.data.seq = seq;
  return c;
}

bool find_shape(const std::string& name, RunConfig& config) {
  if (name == "S")
    config = shape(128, 4, 384, 4, 64, 32, 16, 32, 16, 2, 128, 1, 8, 128);
  else if (name == "M")
    config = shape(256, 6, 768, 8, 128, 32, 16, 32, 32, 4, 128, 1, 8, 256);
  else if (name == "L")
    config = shape(512, 8, 1536, 8, 256, 64, 32, 64, 64, 6, 256, 2, 4, 512);
  else {
    const ParsedConfig preset = load_preset(name);
    if (!preset.problems.empty()) return false;
    config = preset.config;
  }
  return true;
}

double weights_in_millions(const RunConfig& c) {
  std::size_t arena = 0;
  double count = 0;
  for (const ParameterTensor& t : parameter_layout(c.model, arena)) count += static_cast<double>(t.elements());
  return count * 1e-6;
}

// Returns the phase of the step in which this weight is multiplied.
Phase phase_of(const ParameterTensor& t) {
  const auto has = [&](const char* part) { return t.name.find(part) != std::string::npos; };
  if (has(".attention.")) return Phase::attention;
  if (has(".gate.")) return Phase::router;
  if (has(".experts.")) return Phase::experts;
  return t.name == "output.weight" ? Phase::head : Phase::dense_ffn;
}

std::array<double, kNumPhases> flops_by_phase(const RunConfig& c) {
  std::array<double, kNumPhases> flops{};
  const double tokens = static_cast<double>(c.data.batch) * c.data.seq;
  std::size_t arena = 0;
  for (const ParameterTensor& t : parameter_layout(c.model, arena)) {
    if (t.shape.size() < 2 || t.name == "tok_embeddings.weight") continue;
    const double n = static_cast<double>(t.elements());
    const double active = t.shape.size() == 3 ? n * c.router.top_k / c.model.n_experts : n;
    flops[static_cast<std::size_t>(phase_of(t))] += 6 * active * tokens;
  }
  const ModelConfig& m = c.model;
  flops[static_cast<std::size_t>(Phase::attention)] +=
      6.0 * m.n_layers * m.n_heads * (m.qk_nope_head_dim + m.qk_rope_head_dim + m.v_head_dim) * c.data.seq * tokens;
  return flops;
}

double flops(const RunConfig& c) {
  const auto by_phase = flops_by_phase(c);
  return std::accumulate(by_phase.begin(), by_phase.end(), 0.0);
}

// Returns the best GFLOP/s of products of 2048 x 2048 matrices, each computed by all threads in tiles of rows.
double sgemm_peak_gflops() {
  constexpr int kSize = 2048, kTile = 256;
  const std::vector<float> a(kSize * kSize, 0.5f), b(kSize * kSize, 0.25f);
  std::vector<float> c(kSize * kSize);
  double best = 0;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto start = Clock::now();
    parallel_for(kSize / kTile, [&](int tile) {
      const std::size_t at = static_cast<std::size_t>(tile) * kTile * kSize;
      gemm(Trans::no, Trans::no, 1.0f, {a.data() + at, kTile, kSize}, {b.data(), kSize, kSize}, 0.0f,
           Matrix<float>(c.data() + at, kTile, kSize));
    });
    best = std::max(best, 2.0 * kSize * kSize * kSize / seconds_since(start) * 1e-9);
  }
  return best;
}

bool prints_steps = false;

struct Variant {
  std::string name;
  std::unique_ptr<Trainer> trainer;
  std::vector<double> seconds, cpu;
  std::vector<std::array<float, kNumPhases>> phases;
};

void measure(Variant& variant, const Dataset& data, bool count) {
  const Batch batch = data.batch(variant.trainer->steps_taken());
  const auto start = Clock::now();
  const double cpu_start = processor_seconds();
  const TelemetryFrame frame = variant.trainer->step(batch);
  if (!count) return;
  variant.seconds.push_back(seconds_since(start));
  variant.cpu.push_back(processor_seconds() - cpu_start);
  variant.phases.push_back(frame.phase_ms);
  if (!prints_steps) return;
  std::printf("step %zu\n", variant.seconds.size());
  std::fflush(stdout);
}

void print_variant(const Variant& variant, const RunConfig& config, double peak) {
  const double m = median(variant.seconds), best = *std::min_element(variant.seconds.begin(), variant.seconds.end());
  const double tokens = static_cast<double>(config.data.batch) * config.data.seq, work = flops(config) * 1e-9;
  std::printf(
      "  %-22s %8.0f tok/s  %8.2f ms/step (best %.2f, CPU %.2f)  %6.1f GFLOP/s = %2.0f %% of peak (best %2.0f %%)\n",
      variant.name.c_str(), tokens / m, m * 1e3, best * 1e3, median(variant.cpu) * 1e3, work / m, 100 * work / m / peak,
      100 * work / best / peak);
  const auto by_phase = flops_by_phase(config);
  std::printf("    ");
  for (int p = 0; p < kNumPhases; ++p) {
    std::vector<double> ms;
    for (const auto& phases : variant.phases) ms.push_back(phases[static_cast<std::size_t>(p)]);
    const double value = median(ms), gflop = by_phase[static_cast<std::size_t>(p)] * 1e-9;
    if (value <= 0.005) continue;
    std::printf("%s %.2f ms", phase_name(static_cast<Phase>(p)), value);
    if (gflop > 0) std::printf(" (%.0f GFLOP/s)", gflop / value * 1e3);
    std::printf("  ");
  }
  std::printf("\n");
}

void bench(const std::string& name, const RunConfig& base, int steps) {
  const auto data = open_dataset(base.data, base.seed);
  RunConfig silent = base, rounded = base;
  silent.telemetry.frame_interval = silent.telemetry.quant_every = 1 << 30;
  silent.telemetry.specialisation_every = silent.telemetry.texts_every = silent.telemetry.sample_every = 0;
  rounded.precision.experts = Recipe::mxfp8_rceil;
  std::vector<Variant> variants(3);
  variants[0] = {"FP32", std::make_unique<Trainer>(base), {}, {}, {}};
  variants[1] = {"FP32, telemetry off", std::make_unique<Trainer>(silent), {}, {}, {}};
  variants[2] = {"MXFP8, statistics on", std::make_unique<Trainer>(rounded), {}, {}, {}};
  const double peak = sgemm_peak_gflops();
  for (int step = -2; step < steps; ++step)
    for (Variant& variant : variants) measure(variant, *data, step >= 0);
  std::printf("%s: %.1f M weights, %d tokens a step, %.2f GFLOP; sgemm peak %.0f GFLOP/s on %d threads\n", name.c_str(),
              weights_in_millions(base), base.data.batch * base.data.seq, flops(base) * 1e-9, peak, num_threads());
  for (const Variant& variant : variants) print_variant(variant, base, peak);
  const auto ratio = [&](int a, int b, std::vector<double> Variant::*times) {
    return median(variants[static_cast<std::size_t>(a)].*times) / median(variants[static_cast<std::size_t>(b)].*times);
  };
  std::printf("  MXFP8 / FP32 %.2f (CPU %.2f)   telemetry on / off %.3f (CPU %.3f)\n\n", ratio(2, 0, &Variant::seconds),
              ratio(2, 0, &Variant::cpu), ratio(0, 1, &Variant::seconds), ratio(0, 1, &Variant::cpu));
  std::fflush(stdout);
}

// Compares sums of times instead of medians, so that work that is done only every 200 steps counts.
void bench_telemetry(const std::string& name, const RunConfig& base, int steps) {
  const auto data = open_dataset(base.data, base.seed);
  RunConfig silent = base;
  TelemetryConfig& t = silent.telemetry;
  t.frame_interval = t.quant_every = 1 << 30;
  t.flips_every = t.gradient_every = t.specialisation_every = t.texts_every = t.sample_every = 0;
  std::vector<Variant> variants(2);
  variants[0] = {"all telemetry", std::make_unique<Trainer>(base), {}, {}, {}};
  variants[1] = {"none", std::make_unique<Trainer>(silent), {}, {}, {}};
  for (int step = -1; step < steps; ++step)
    for (Variant& variant : variants) measure(variant, *data, step >= 0);
  const auto sum = [](const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); };
  std::vector<double> phase;
  for (const auto& ms : variants[0].phases)
    phase.push_back(static_cast<double>(ms[static_cast<std::size_t>(Phase::telemetry)]));
  std::printf("%s: telemetry at the default cadence over %d steps: %.2f ms of %.2f ms a step, %.2f %%\n", name.c_str(),
              steps, sum(phase) / steps, sum(variants[0].seconds) / steps * 1e3,
              sum(phase) * 1e-1 / sum(variants[0].seconds));
  std::printf("  all / none %.3f (CPU %.3f); of medians %.3f (CPU %.3f)\n\n",
              sum(variants[0].seconds) / sum(variants[1].seconds), sum(variants[0].cpu) / sum(variants[1].cpu),
              median(variants[0].seconds) / median(variants[1].seconds),
              median(variants[0].cpu) / median(variants[1].cpu));
  std::fflush(stdout);
}

// Measures the wall time to take a snapshot, for which the training waits, and the CPU time to write it to the disk,
// which a separate thread does.
void bench_checkpoints(const std::string& name, const RunConfig& base, int steps) {
  const auto data = open_dataset(base.data, base.seed);
  Variant variant{"", std::make_unique<Trainer>(base), {}, {}, {}};
  const std::string path = (std::filesystem::temp_directory_path() / "moescope_bench.safetensors").string();
  std::vector<double> taking, writing;
  std::shared_ptr<const TrainerSnapshot> saved_snapshot;
  for (int step = -2; step < steps; ++step) {
    measure(variant, *data, step >= 0);
    const auto start = Clock::now();
    std::shared_ptr<const TrainerSnapshot> snapshot = variant.trainer->snapshot();
    if (step >= 0) taking.push_back(seconds_since(start));
    saved_snapshot =
        std::move(snapshot);  // frees the previous one, so that memory is allocated anew each time, as in the ring
    if (step % 4) continue;
    const double cpu = processor_seconds();
    saved_snapshot->save(path);
    if (step >= 0) writing.push_back(processor_seconds() - cpu);
  }
  std::filesystem::remove(path);
  const TelemetryConfig& t = base.telemetry;
  const double ms = median(taking) * 1e3, step_ms = median(variant.seconds) * 1e3, file_ms = median(writing) * 1e3;
  std::printf("%s: %.1f M weights; a checkpoint %.1f MB, %d kept %.0f MB\n", name.c_str(), weights_in_millions(base),
              static_cast<double>(saved_snapshot->bytes()) * 1e-6, t.checkpoints_kept,
              static_cast<double>(saved_snapshot->bytes()) * 1e-6 * t.checkpoints_kept);
  std::printf("  taken in %.2f ms (worst %.2f) of a step's %.2f ms; every %d steps: %.3f %% of step time\n", ms,
              *std::max_element(taking.begin(), taking.end()) * 1e3, step_ms, t.checkpoint_every,
              100 * ms / (t.checkpoint_every * step_ms));
  std::printf("  written beside it in %.1f ms CPU: %.3f %% of one core at that cadence\n\n", file_ms,
              100 * file_ms / (t.checkpoint_every * step_ms));
  std::fflush(stdout);
}

enum class Recipes { none, experts, everywhere };

struct Precision {
  Recipe recipe;
  Rounding rounding = Rounding::nearest;
  bool rotated = false;

  std::string name() const {
    std::string name = recipe_info(recipe).name;
    if (rounding == Rounding::stochastic) name += " stochastic";
    if (rotated) name += ", rotated";
    return name;
  }
};

std::vector<Precision> all_precisions() {
  std::vector<Precision> all;
  for (const RecipeInfo& info : recipes()) all.push_back({info.recipe});
  for (const Recipe recipe : {Recipe::mxfp8_rceil, Recipe::mxfp4, Recipe::nvfp4})
    for (const bool rotated : {false, true}) all.push_back({recipe, Rounding::stochastic, rotated});
  return all;
}

Variant variant_of(const RunConfig& base, Recipes which, const Precision& rounded) {
  RunConfig config = base;
  PrecisionConfig& p = config.precision;
  p = {};
  p.experts = rounded.recipe;
  if (which == Recipes::everywhere)
    p.shared_experts = p.dense_ffn = p.attention = p.router_gate = p.head = rounded.recipe;
  p.rounding = rounded.rounding;
  p.hadamard = rounded.rotated;
  return {rounded.name(), std::make_unique<Trainer>(config), {}, {}, {}};
}

// Compares each recipe, or the one of this name, with FP32. Both take steps alternately, so that a busy machine slows
// both equally.
void bench_recipes(const std::string& name, const RunConfig& base, int steps, Recipes which, const std::string& only) {
  const auto data = open_dataset(base.data, base.seed);
  std::printf("%s, %s, against FP32 (medians of %d steps)\n", name.c_str(),
              which == Recipes::experts ? "routed experts" : "all weights", steps);
  for (const Precision& precision : all_precisions()) {
    if (!only.empty() && precision.name() != only) continue;
    Variant plain = variant_of(base, which, {Recipe::fp32});
    Variant rounded = variant_of(base, which, precision);
    for (int step = -1; step < steps; ++step) {
      measure(plain, *data, step >= 0);
      measure(rounded, *data, step >= 0);
    }
    std::printf("  %-28s %8.2f ms/step (CPU %8.2f)   %.2fx (CPU %.2fx)\n", rounded.name.c_str(),
                median(rounded.seconds) * 1e3, median(rounded.cpu) * 1e3,
                median(rounded.seconds) / median(plain.seconds), median(rounded.cpu) / median(plain.cpu));
    std::fflush(stdout);
  }
}

// Measures steps with all weights in different formats, alternately, which shows the effect of BF16 matrix units.
void bench_units(const std::string& name, const RunConfig& base, int steps, const std::string& only) {
  const auto data = open_dataset(base.data, base.seed);
  std::vector<Precision> precisions = {
      {Recipe::fp32}, {Recipe::bf16}, {Recipe::mxfp8_rceil}, {Recipe::nvfp4, Rounding::stochastic, true}};
  if (!only.empty()) {
    precisions = all_precisions();
    std::erase_if(precisions, [&](const Precision& precision) { return precision.name() != only; });
  }
  std::vector<Variant> variants;
  for (const Precision& precision : precisions) variants.push_back(variant_of(base, Recipes::everywhere, precision));
  const double peak = sgemm_peak_gflops();
  for (int step = -3; step < steps; ++step)
    for (Variant& variant : variants) measure(variant, *data, step >= 0);
  std::printf("%s, all weights; %s; sgemm peak %.0f GFLOP/s on %d threads (medians of %d steps)\n", name.c_str(),
              matrix_unit_text().c_str(), peak, num_threads(), steps);
  for (const Variant& variant : variants) {
    print_variant(variant, base, peak);
    if (precisions.front().recipe != Recipe::fp32) continue;
    std::printf("    %.2fx FP32's time (CPU %.2fx)\n", median(variant.seconds) / median(variants[0].seconds),
                median(variant.cpu) / median(variants[0].cpu));
  }
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace
}  // namespace moescope

int main(int argc, char** argv) {
  using namespace moescope;
  std::printf("%s\n", start_with_fast_kernels(argv).c_str());
  std::vector<std::string> names;
  std::string only;
  int steps = 9;
  bool telemetry = false, checkpoints = false, units = false;
  Recipes which = Recipes::none;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--steps") && i + 1 < argc)
      steps = std::max(1, std::atoi(argv[++i]));
    else if (!std::strcmp(argv[i], "--recipes"))
      which = Recipes::experts;
    else if (!std::strcmp(argv[i], "--recipes-everywhere"))
      which = Recipes::everywhere;
    else if (!std::strcmp(argv[i], "--only") && i + 1 < argc)
      only = argv[++i];
    else if (!std::strcmp(argv[i], "--units"))
      units = true;
    else if (!std::strcmp(argv[i], "--telemetry"))
      telemetry = true;
    else if (!std::strcmp(argv[i], "--checkpoints"))
      checkpoints = true;
    else if (!std::strcmp(argv[i], "--each-step"))
      prints_steps = true;
    else if (!std::strcmp(argv[i], "--threads") && i + 1 < argc)
      set_num_threads(std::atoi(argv[++i]));
    else
      names.emplace_back(argv[i]);
  }
  if (names.empty()) names = {"S", "M", "L", "nano", "mini-v3"};
  for (const std::string& name : names) {
    RunConfig config;
    if (!find_shape(name, config)) {
      std::fprintf(stderr, "bench_step: \"%s\" is neither S, M, L nor a preset\n", name.c_str());
      return 2;
    }
    if (checkpoints)
      bench_checkpoints(name, config, steps);
    else if (units)
      bench_units(name, config, steps, only);
    else if (telemetry)
      bench_telemetry(name, config, steps);
    else if (which == Recipes::none)
      bench(name, config, steps);
    else
      bench_recipes(name, config, steps, which, only);
  }
}
