#include "core/config/dense_twin.h"

#include <algorithm>
#include <cmath>

#include "core/config/config_check.h"
#include "core/config/config_difference.h"

namespace moescope {
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
  const double of_feed_forwards = weights_to_match(config, size) - parameter_count(twin);
  const double width = of_feed_forwards / (3.0 * model.dim * model.n_layers);
  model.dense_inter = std::max(1, static_cast<int>(std::lround(width / kWidthStep))) * kWidthStep;

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
