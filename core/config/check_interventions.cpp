// Rules for interventions on routers and data: lists of experts, the experts that can still be chosen, mixtures.
#include <algorithm>
#include <functional>
#include <stdexcept>

#include "core/config/config_rules.h"
#include "core/config/expert_list.h"
#include "core/config/mixture.h"

namespace moescope {
namespace {

using Rules = std::vector<RuleViolation>;

void check_list(Setting setting, const std::string& text, ListOf kind, const ModelConfig& model, Rules& found) {
  try {
    parse_experts(text, model, kind);
  } catch (const std::invalid_argument& error) {
    found.push_back(
        {{setting, &ModelConfig::n_experts, &ModelConfig::n_layers, &ModelConfig::n_dense_layers}, error.what()});
  }
}

// Returns the smallest number of living experts from which a token can choose, whichever groups it is limited to.
// Groups without a living expert are not chosen.
int reachable_experts(const RouterConfig& router, const std::vector<std::uint8_t>& killed) {
  const int experts = killed.size();
  const bool grouped = router.n_groups > 0 && router.n_limited_groups > 0;
  const int groups = grouped ? router.n_groups : 1, width = experts / groups;
  std::vector<int> living;
  for (int g = 0; g < groups; ++g) {
    const auto first = killed.begin() + static_cast<std::ptrdiff_t>(g) * width;
    const int alive = width - static_cast<int>(std::count(first, first + width, 1));
    if (alive > 0) living.push_back(alive);
  }
  std::sort(living.begin(), living.end());
  if (grouped && static_cast<int>(living.size()) > router.n_limited_groups) living.resize(router.n_limited_groups);
  int reachable = 0;
  for (const int alive : living) reachable += alive;
  return reachable;
}

void check_remaining(const RunConfig& c, Rules& found) {
  const ExpertMasks masks = killed_masks(c);
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const int reachable = reachable_experts(c.router, masks[i]);
    if (reachable >= c.router.top_k) continue;
    found.push_back({{&RouterConfig::killed_experts, &RouterConfig::top_k, &RouterConfig::n_limited_groups,
                      &RouterConfig::n_groups},
                     "killed_experts leaves a token " + std::to_string(reachable) + " experts in layer " +
                         std::to_string(c.model.n_dense_layers + static_cast<int>(i)) + ", but top_k is " +
                         std::to_string(c.router.top_k) + ": choose fewer to kill, or a lower top_k"});
    return;
  }
}

void check_mixture(const DataConfig& data, Rules& found) {
  try {
    if (!data.path.empty()) {
      parse_mixture(data.mixture);  // the domains are unknown until the files are open
      return;
    }
    mixture_weights(data.mixture, generated_domain_names(data.generator));
  } catch (const std::invalid_argument& error) {
    found.push_back({{&DataConfig::mixture, &DataConfig::generator}, error.what()});
  }
}

}  // namespace

void check_interventions(const RunConfig& c, Rules& found) {
  const std::size_t before = found.size();
  check_list(&RouterConfig::killed_experts, c.router.killed_experts, ListOf::experts, c.model, found);
  const bool killed_is_readable = found.size() == before;
  check_list(&RouterConfig::pinned_bias, c.router.pinned_bias, ListOf::values, c.model, found);
  check_list(&RouterConfig::initial_bias, c.router.initial_bias, ListOf::values, c.model, found);
  check_list(&OptimizerConfig::fault_missing_experts, c.optimizer.fault_missing_experts, ListOf::experts, c.model,
             found);
  const bool groups_fit = c.router.n_groups == 0 || c.model.n_experts % c.router.n_groups == 0;
  if (killed_is_readable && groups_fit && c.model.n_dense_layers <= c.model.n_layers) check_remaining(c, found);
  if (c.model.outlier_factor != 1 && c.model.outlier_channel >= c.model.dim)
    found.push_back({{&ModelConfig::outlier_channel, &ModelConfig::dim},
                     "outlier_channel is " + std::to_string(c.model.outlier_channel) + ", but dim is " +
                         std::to_string(c.model.dim) + ": choose 0 to " + std::to_string(c.model.dim - 1)});
  check_mixture(c.data, found);
}

}  // namespace moescope
