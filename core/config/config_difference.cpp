#include "core/config/config_difference.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "core/config/config_check.h"
#include "core/config/config_toml.h"

namespace moescope {

namespace {

// Returns the next value of an integer setting, or `first` if `value` is the largest one.
std::int64_t next(std::int64_t value, Setting setting, std::int64_t first) {
  return value < setting.field().max ? value + 1 : first;
}

}  // namespace

std::string valid_name(std::string name) {
  constexpr std::size_t kMaxLength = 64;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && std::string_view("-_.+").find(c) == std::string_view::npos)
      c = '-';
  return name.substr(0, kMaxLength);
}

std::vector<ConfigDifference> difference(const RunConfig& a, const RunConfig& b) {
  std::vector<ConfigDifference> differences;
  for (const ConfigField& field : config_fields()) {
    if (Setting(field) == &RunConfig::name || field.derived) continue;
    const ConfigValue value_a = field.get(a), value_b = field.get(b);
    if (value_a == value_b) continue;
    differences.push_back({field, to_string(value_a), to_string(value_b)});
  }
  return differences;
}

bool is_noise_twin(const RunConfig& a, const RunConfig& b) {
  for (const ConfigDifference& found : difference(a, b)) {
    const bool observes = found.setting.is_in<TelemetryConfig>() || found.setting.is_in<ParallelConfig>();
    const bool chance = found.setting == &RunConfig::seed || found.setting == &RunConfig::perturbation;
    if (!chance && !observes) return false;
  }
  return a.seed != b.seed || a.perturbation != b.perturbation;
}

bool same_start(const RunConfig& a, const RunConfig& b) {
  for (const ConfigDifference& found : difference(a, b))
    if (found.setting == &RunConfig::seed || found.setting.is_in<ModelConfig>()) return false;
  return true;
}

RunConfig noise_twin(const RunConfig& config) {
  if (!config.model.initial_weights.empty()) return perturbed_twin(config);
  RunConfig twin = config;
  twin.seed = next(config.seed, &RunConfig::seed, 0);
  twin.name = twin_name(config, twin);
  return twin;
}

RunConfig perturbed_twin(const RunConfig& config) {
  RunConfig twin = config;
  twin.perturbation = next(config.perturbation, &RunConfig::perturbation, 1);
  twin.name = twin_name(config, twin);
  return twin;
}

std::string twin_name(const RunConfig& first, const RunConfig& twin) {
  std::string name = first.name, last;
  if (const auto dense = dense_size(first, twin))
    return valid_name(name + (*dense == DenseSize::active ? "+dense-active" : "+dense-total"));
  // The name of a published recipe replaces the list of its settings.
  const std::string recipe = first.precision == twin.precision ? "" : published_recipe_of(twin.precision);
  if (!recipe.empty()) name += '+' + recipe;
  for (const ConfigDifference& found : difference(first, twin)) {
    if (!recipe.empty() && found.setting.is_in<PrecisionConfig>()) continue;
    const bool is_choice = !found.setting.field().choices.empty();
    const std::string part = '+' + (is_choice ? found.b : found.setting.name() + '-' + found.b);
    if (part != last) name += part;  // names one format of several classes of weights once
    last = part;
  }
  return valid_name(std::move(name));
}

namespace {

constexpr int kWidthStep = 32;

double weights_to_match(const RunConfig& c, DenseSize size) {
  const double all = parameter_count(c);
  if (size == DenseSize::total) return all;
  const double moe_layers = c.model.n_layers - c.model.n_dense_layers;
  const double idle_experts = c.model.n_experts - c.router.top_k;
  return all - moe_layers * idle_experts * 3.0 * c.model.row_dim() * c.model.moe_inter;
}

}  // namespace

RunConfig dense_twin(const RunConfig& config, DenseSize size) {
  RunConfig twin = config;
  ModelConfig& model = twin.model;
  model.n_dense_layers = model.n_layers;
  model.dense_inter = 0;
  const double feed_forward_weights = weights_to_match(config, size) - parameter_count(twin);
  const double width = feed_forward_weights / (3.0 * model.dim * model.n_layers);
  model.dense_inter = std::max(1, to_int(std::lround(width / kWidthStep))) * kWidthStep;

  twin.router.n_hash_layers = 0;
  twin.router.replay = false;
  twin.router.killed_experts = twin.router.pinned_bias = twin.router.initial_bias = "";
  twin.optimizer.fault_missing_experts = "";
  twin.precision.dense_ffn = config.precision.experts;
  twin.precision.experts = Recipe::fp32;
  return twin;
}

std::optional<DenseSize> dense_size(const RunConfig& config, const RunConfig& twin) {
  if (config.model.n_dense_layers == config.model.n_layers) return {};
  for (const DenseSize size : {DenseSize::active, DenseSize::total}) {
    const RunConfig dense = dense_twin(config, size);
    if (difference(dense, twin).empty()) return size;
  }
  return {};
}

}  // namespace moescope
