#include "core/training/router_roundings.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/frame/router_stats.h"
#include "core/model/moe/bias_rules.h"
#include "core/model/moe/router.h"
#include "core/numerics/bf16_rounding.h"
#include "core/numerics/size.h"

namespace moescope {
namespace {

// Returns the config of a router whose choice depends on scores and biases alone.
RouterConfig choice_alone(RouterConfig config) {
  config.aux_mode = AuxMode::none;
  config.z_coeff = config.gate_noise = 0;
  config.token_drop = TokenDrop::none;
  return config;
}

// The experts that a router chooses if one of its numbers is rounded.
struct RoundedChoice {
  std::vector<float> bias;
  Arena<float> arena;
  RouterActivations<float> routed;

  RoundedChoice(const SingleRouter& router, RouterRounding rounding)
      : bias(router.expert_bias.begin(), router.expert_bias.end()) {
    RunConfig config = router.config;
    config.router = choice_alone(config.router);
    config.precision = {};  // all in FP32
    if (rounding == RouterRounding::operands) config.precision.router_gate = Recipe::bf16;
    if (rounding == RouterRounding::gate_output) config.precision.gate_output = StoredFormat::bf16;
    if (rounding == RouterRounding::bias) round_to_bf16(std::span(bias));
    routed.plan(arena, router.part, bias.size(), config.router.top_k);
    arena.commit();
    const StepPrecision precision = step_precision(config, 0, router.layer);
    const LayerPrecision of_layer{&precision, router.layer, nullptr, nullptr, router.part.shard_rows()};
    router_forward<float>(config.router, router.part, {router.gate, router.h, bias.data()}, routed,
                          of_layer.linear_precision(Gemm::gate), router.limits);
  }
};

void count_changes(const SingleRouter& router, const RouterActivations<float>& exact,
                   const RouterActivations<float>& rounded, RouterRoundingFrame& row) {
  const std::size_t tokens = router.part.tokens(), top_k = size(router.config.router.top_k);
  std::size_t changed = 0;
  for (std::size_t t = 0; t < tokens; ++t) {
    const std::int32_t* ids = exact.ids.data() + t * top_k;
    const bool flip = !std::equal(ids, ids + top_k, rounded.ids.data() + t * top_k);
    changed += flip;
    if (std::isnan(exact.margin[t])) continue;
    const std::size_t bin = size(half_octave_bin(exact.margin[t]));
    ++row.margin_tokens[bin];
    row.margin_flipped[bin] += flip;
  }
  row.changed = static_cast<float>(changed / static_cast<double>(tokens));
}

bool counts_decide(const RouterConfig& config) {
  return config.balance_rule == BalanceRule::sign && config.bias_update_rate > 0 && !config.frozen &&
         !config.fault_stale_bias;
}

// Returns the row for the rounding of the counts of MoE layer `moe` in the learner's last forward pass.
RouterRoundingFrame count_rounding(const Learner<float>& learner, std::size_t moe) {
  const Transformer<float>& model = learner.model();
  const RouterActivations<float>& routed = model.moe()[moe].router;
  const Mask killed = model.killed(moe);
  const std::vector<double> exact = bias_directions(routed.rows_per_expert, killed);
  const std::vector<double> rounded =
      directions_in_bf16(bf16_counts(model.part(), routed.sent(), learner.config.model.n_experts), killed);
  std::size_t turned = 0;
  for (std::size_t e = 0; e < exact.size(); ++e) turned += exact[e] != rounded[e];
  RouterRoundingFrame row;
  row.layer = learner.config.model.n_dense_layers + static_cast<int>(moe);
  row.rounding = RouterRounding::counts;
  row.changed = static_cast<float>(turned / static_cast<double>(exact.size()));
  return row;
}

}  // namespace

std::vector<RouterRoundingFrame> router_roundings(const SingleRouter& router) {
  const RoundedChoice exact(router, RouterRounding::none);
  std::vector<RouterRoundingFrame> rows;
  for (const RouterRounding rounding :
       {RouterRounding::none, RouterRounding::operands, RouterRounding::gate_output, RouterRounding::bias}) {
    const RoundedChoice rounded(router, rounding);
    RouterRoundingFrame& row = rows.emplace_back();
    row.layer = router.layer;
    row.rounding = rounding;
    row.max_vio = max_vio(rounded.routed.tokens_per_expert);
    row.bias_values = static_cast<float>(std::set<float>(rounded.bias.begin(), rounded.bias.end()).size());
    count_changes(router, exact.routed, rounded.routed, row);
  }
  return rows;
}

std::vector<RouterRoundingFrame> router_roundings(const Learner<float>& learner, const Transformer<float>& reference) {
  const RunConfig& config = reference.config();
  std::vector<RouterRoundingFrame> rows;
  if (config.router.force_balance || reference.replayed()) return rows;
  for (std::size_t moe = size(config.router.n_hash_layers); moe < reference.moe().size(); ++moe) {
    const int layer = config.model.n_dense_layers + static_cast<int>(moe);
    const SingleRouter router{config,
                              layer,
                              reference.part(),
                              reference.rows_of(layer).back().first,  // input of the router
                              learner.parameters.weight_view.layers[size(layer)].gate,
                              learner.expert_bias[moe],
                              {.killed = reference.killed(moe), .padding = reference.moe()[moe].router.padding}};
    for (RouterRoundingFrame& row : router_roundings(router)) rows.push_back(row);
    if (counts_decide(learner.config.router)) rows.push_back(count_rounding(learner, moe));
  }
  return rows;
}

}  // namespace moescope
