// golden_stored DIR: checks what a training stores in BF16 against reference data made by running PyTorch.
//
// DIR holds stored_bf16.safetensors; tests/golden/stored/README.md describes it and how exact each comparison is. Exits
// with 0 if all agree, 1 if something differs, 2 if there is nothing to compare or a file cannot be read.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/files/tensors/safetensors.h"
#include "core/model/layers/linear.h"
#include "core/model/layers/rms_norm.h"
#include "core/model/moe/bias_rules.h"
#include "core/model/optimizer.h"
#include "core/numerics/bf16_rounding.h"
#include "tests/golden/checked_folder.h"
#include "tests/golden/tally.h"

using namespace moescope;

namespace {

using Floats = std::vector<float>;

constexpr double kBf16Unit = 1.0 / 128;  // largest relative distance between neighboring numbers

// The reference got its settings in double, but the file stores them in float32: 0.95, not 0.949999988.
double as_given(float stored) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.7g", static_cast<double>(stored));
  return std::strtod(digits, nullptr);
}

// Checks that values differ by at most a BF16 unit plus `absolute`, and that a share of `share` is equal.
void check(const std::string& what, std::span<const float> found, const Floats& want, double share,
           double absolute = 0) {
  std::size_t equal = 0;
  {
    Tally tally(what);
    for (std::size_t i = 0; i < want.size(); ++i) {
      equal += found[i] == want[i];
      tally.within(i, static_cast<double>(found[i]), static_cast<double>(want[i]),
                   absolute + kBf16Unit * std::fabs(static_cast<double>(want[i])));
    }
  }
  Tally tally(what + ", share of equal values");
  tally.within(0, 1 - static_cast<double>(equal) / static_cast<double>(want.size()), 0, 1 - share);
}

double largest(const Floats& values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  return largest;
}

void check_adamw(const SafetensorsFile& file) {
  const Floats hyper = file.at("adamw.hyper").floats(), first = file.at("adamw.weight0").floats();
  RunConfig config;
  OptimizerConfig& o = config.optimizer;
  const double lr = as_given(hyper.at(0));
  o.beta1 = as_given(hyper.at(1));
  o.beta2 = as_given(hyper.at(2));
  o.eps = as_given(hyper.at(3));
  o.weight_decay = as_given(hyper.at(4));
  o.master_format = o.moment1_format = o.moment2_format = StoredFormat::bf16;
  Parameters<float> parameters(config.model);
  const std::size_t count = first.size();
  if (count > parameters.size()) throw std::runtime_error("adamw.weight0: more weights than the model has");
  const std::vector<ParameterRun> slices = {{0, count}};
  std::ranges::copy(first, parameters.weights.begin());
  for (std::size_t step = 0; step < file.at("adamw.grad").shape.at(0); ++step) {
    const auto step_floats = [&](const char* name) {
      return file.at(std::string("adamw.") + name).floats(step * count, count);
    };
    std::ranges::copy(step_floats("grad"), parameters.gradients.begin());
    adamw_update<float>(o, static_cast<std::int64_t>(step), lr, 1, slices,
                        {parameters.gradients, parameters.weights, parameters.moment1, parameters.moment2});
    round_state<float>(config, static_cast<std::int64_t>(step), slices, parameters);
    const struct {
      const char* name;
      std::span<float> values;
      double equal;  // share that is equal
    } arenas[] = {{"weight", parameters.weights, 0.99},
                  {"exp_avg", parameters.moment1, 0.98},
                  {"exp_avg_sq", parameters.moment2, 0.99}};
    for (const auto& [name, values, equal] : arenas) {
      const Floats want = step_floats(name);
      check("step " + std::to_string(step) + ", " + name, values, want, equal, 1e-6 * largest(want));
      std::ranges::copy(want, values.begin());  // the next step begins where the reference does
    }
  }
}

void check_counts(const SafetensorsFile& file) {
  const Floats parts = file.at("counts.parts").floats(), sum = file.at("counts.sum").floats(),
               sign = file.at("counts.sign").floats();
  const std::vector<std::uint32_t> counts(parts.begin(), parts.end());
  const Floats loads = sum_in_bf16(counts, static_cast<int>(sum.size()));
  Tally sum_tally("counts.sum"), sign_tally("counts.sign");
  for (std::size_t e = 0; e < sum.size(); ++e) sum_tally.value(e, loads.at(e), sum[e]);
  const std::vector<double> directions = directions_in_bf16(loads);
  for (std::size_t e = 0; e < sign.size(); ++e)
    sign_tally.integer(e, static_cast<int>(directions.at(e)), static_cast<int>(sign[e]));
}

// The gate's product, as precision.router_gate and gate_output = bf16 compute it.
void check_linear(const SafetensorsFile& file) {
  const Floats x = file.at("linear.x").floats(), w = file.at("linear.w").floats(), want = file.at("linear.y").floats();
  const std::size_t inner = file.at("linear.x").shape.at(1), rows = x.size() / inner, cols = w.size() / inner;
  RunConfig config;
  config.precision.router_gate = Recipe::bf16;
  config.precision.gate_output = StoredFormat::bf16;
  const StepPrecision step = step_precision(config, 0, 1);
  Floats y(rows * cols);
  linear_forward<float>({x.data(), rows, inner}, {w.data(), cols, inner}, {y.data(), rows, cols}, false,
                        LayerPrecision{&step, 1}.linear_precision(Gemm::gate));
  check("linear.y", y, want, 0.98, 1e-5 * largest(want));
}

void check_norm(const SafetensorsFile& file) {
  const Floats x = file.at("norm.x").floats(), gain = file.at("norm.gain").floats(), want = file.at("norm.y").floats();
  const std::size_t width = gain.size(), rows = x.size() / width;
  Floats y(x.size()), inverse(rows);
  rms_norm_forward<float>({x.data(), rows, width}, gain, as_given(file.at("norm.eps").floats().at(0)),
                          {y.data(), rows, width}, inverse);
  round_to_bf16(std::span(y));
  check("norm.y", y, want, 0.98, 1e-5 * largest(want));
}

void check_sum(const SafetensorsFile& file) {
  const Floats x = file.at("add.x").floats(), y = file.at("add.y").floats(), want = file.at("add.sum").floats();
  Floats sum(x.size());
  std::ranges::transform(x, y, sum.begin(), std::plus());
  round_to_bf16(std::span(sum));
  Tally tally("add.sum");
  for (std::size_t i = 0; i < want.size(); ++i) tally.value(i, sum[i], want[i]);
}

void check_all(const SafetensorsFile& file) {
  check_adamw(file);
  check_counts(file);
  check_linear(file);
  check_norm(file);
  check_sum(file);
}

}  // namespace

int main(int argc, char** argv) {
  return check_folder("golden_stored", argc, argv, {{"stored_bf16", check_all}});
}
