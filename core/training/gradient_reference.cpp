#include "core/training/gradient_reference.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>

#include "core/config/config_field.h"
#include "core/frame/router_stats.h"
#include "core/model/moe/bias_rules.h"
#include "core/model/moe/router.h"
#include "core/model/routing_flips.h"
#include "core/numerics/bf16_rounding.h"
#include "core/numerics/statistics.h"

namespace moescope {
namespace {

// Sums over the run's gradient g and the reference r.
struct Sums {
  double gg = 0, rr = 0, gr = 0, difference = 0;

  void add(std::span<const float> g, std::span<const float> r) {
    for (std::size_t i = 0; i < g.size(); ++i) {
      const double value_g = g[i], value_r = r[i];
      gg += value_g * value_g;
      rr += value_r * value_r;
      gr += value_g * value_r;
      difference += (value_g - value_r) * (value_g - value_r);
    }
  }
  void add(const Sums& other) {
    gg += other.gg;
    rr += other.rr;
    gr += other.gr;
    difference += other.difference;
  }
  GradientFrame frame(int layer, GradientGroup group) const {
    GradientFrame frame{layer, group};
    frame.snr_db = static_cast<float>(difference);
    if (difference == 0) frame.snr_db = std::numeric_limits<float>::infinity();
    if (difference > 0) frame.snr_db = static_cast<float>(10 * std::log10(rr / difference));
    if (gg > 0 && rr > 0) frame.cosine = static_cast<float>(gr / std::sqrt(gg * rr));
    return frame;
  }
};

struct Place {
  int layer;
  GradientGroup group;
};

// Returns the layer and the group of a tensor by its name in parameter_layout().
Place gradient_place(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  if (!name.starts_with(kLayers))
    return {-1, name.starts_with("tok_embeddings") ? GradientGroup::embedding : GradientGroup::head};
  name.remove_prefix(kLayers.size());
  int layer = 0;
  name.remove_prefix(std::from_chars(name.data(), name.data() + name.size(), layer).ptr + 1 - name.data());
  GradientGroup group = GradientGroup::ffn;
  if (name.starts_with("ffn_norm")) group = GradientGroup::all;
  if (name.starts_with("moe.experts")) group = GradientGroup::experts;
  if (name.starts_with("moe.router")) group = GradientGroup::gate;
  if (name.starts_with("attention")) group = GradientGroup::attention;
  return {layer, group};
}

using GroupSums = std::array<Sums, kNumGradientGroups>;

void append_frames(int layer, const GroupSums& sums, std::vector<GradientFrame>& frames) {
  for (std::size_t g = 0; g < sums.size(); ++g)
    if (sums[g].gg > 0 || sums[g].rr > 0) frames.push_back(sums[g].frame(layer, static_cast<GradientGroup>(g)));
}

std::vector<GradientFrame> frames_of(const Parameters<float>& parameters, int n_layers,
                                     std::span<const float> gradients, std::span<const float> reference) {
  constexpr auto kAllGroups = static_cast<std::size_t>(GradientGroup::all);
  std::vector<GroupSums> layers(n_layers);
  GroupSums whole;
  for (const ParameterTensor& tensor : parameters.tensors()) {
    Sums sums;
    for (std::size_t b = 0; b < tensor.blocks(); ++b)
      sums.add(tensor.block_in(gradients, b), tensor.block_in(reference, b));
    const Place place = gradient_place(tensor.name);
    GroupSums& group_sums = place.layer < 0 ? whole : layers[place.layer];
    if (place.group != GradientGroup::all) group_sums[static_cast<std::size_t>(place.group)].add(sums);
    if (place.layer >= 0) group_sums[kAllGroups].add(sums);
    whole[kAllGroups].add(sums);
  }
  std::vector<GradientFrame> frames;
  for (int layer = 0; layer < n_layers; ++layer) append_frames(layer, layers[layer], frames);
  append_frames(-1, whole, frames);
  return frames;
}

// Adds the figures of the FP32 pass with the run's experts.
void add_pinned(const std::vector<GradientFrame>& pinned, std::vector<GradientFrame>& frames) {
  for (GradientFrame& frame : frames)
    for (const GradientFrame& pinned_frame : pinned) {
      if (pinned_frame.layer != frame.layer || pinned_frame.group != frame.group) continue;
      frame.pinned_snr_db = pinned_frame.snr_db;
      frame.pinned_cosine = pinned_frame.cosine;
    }
}

PredictedTokens predictions(const Transformer<float>& model) {
  return {model.logits(), model.token_losses()};
}

std::vector<std::vector<std::int32_t>> experts_of(const Transformer<float>& model) {
  std::vector<std::vector<std::int32_t>> experts;
  for (const MoeActivations<float>& moe : model.moe()) experts.push_back(moe.router.ids);
  return experts;
}

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
    routed.plan(arena, router.part, to_int(bias.size()), config.router.top_k);
    arena.commit();
    const StepPrecision precision = step_precision(config, 0, router.layer);
    const LayerPrecision layer_precision{&precision, router.layer, nullptr, nullptr, router.part.shard_rows()};
    router_forward<float>(config.router, router.part, {router.gate, router.h, bias}, routed,
                          layer_precision.linear_precision(Gemm::gate), router.limits);
  }
};

std::vector<KeptRouting> routing_of(const SingleRouter& router, const RouterActivations<float>& routed) {
  const ModelConfig& model = router.config.model;
  return keep_routing({{router.layer, model.n_experts, router.config.router.top_k, routed.ids, routed.margin}});
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
  row.layer = learner.config.model.n_dense_layers + to_int(moe);
  row.rounding = RouterRounding::counts;
  row.changed = static_cast<float>(turned / static_cast<double>(exact.size()));
  return row;
}

}  // namespace

RunConfig in_fp32(RunConfig config) {
  for (const ConfigField& field : config_fields())
    if (field.key.starts_with("precision.") && std::ranges::count(field.choices, "fp32") > 0)
      field.set(config, std::string("fp32"));
  config.precision.operands.clear();
  return config;
}

void GradientReference::compare(Learner<float>& learner, const Batch& batch, TelemetryFrame& frame) {
  config_ = in_fp32(learner.config);
  if (!model_ || !model_->fits(batch)) {
    model_.reset();  // first, so that two models never exist at once
    model_ = std::make_unique<Transformer<float>>(config_, learner.parameters, batch.sequences, batch.length);
  }
  const std::span<float> gradients = learner.parameters.gradients;
  saved_gradients_.assign(gradients.begin(), gradients.end());
  run(learner, batch, learner.model().replayed());
  const auto frames = [&] {
    return frames_of(learner.parameters, config_.model.n_layers, saved_gradients_, gradients);
  };
  const auto exact = keep_routing(routing_of(*model_)), rounded = keep_routing(routing_of(learner.model()));
  frame.gradients = frames();
  frame.rounding_flips = routing_flips(exact, rounded);
  frame.router_roundings = router_roundings(learner, *model_);
  const Agreement found = agreement(predictions(learner.model()), predictions(*model_), model_->padding());
  frame.fp32_kl = static_cast<float>(found.kl);
  frame.fp32_k1 = static_cast<float>(found.ratios.k1());
  frame.fp32_k3 = static_cast<float>(found.ratios.k3());
  frame.fp32_ratio_beyond_2 = static_cast<float>(found.ratios.ratio_beyond_2());
  frame.fp32_any_layer_flipped = flipped_in_any_layer(exact, rounded);
  if (frame.fp32_any_layer_flipped > 0) {
    const std::vector<std::vector<std::int32_t>> experts = experts_of(learner.model());
    run(learner, batch, experts);
    model_->set_replayed({});
    add_pinned(frames(), frame.gradients);
  } else {
    add_pinned(std::vector(frame.gradients), frame.gradients);
  }
  std::ranges::copy(saved_gradients_, gradients.begin());
}

void GradientReference::run(Learner<float>& learner, const Batch& batch, ReplayedExperts experts) {
  PhaseClock clock;  // not read: the caller counts these passes as telemetry
  model_->set_replayed(experts);
  model_->forward(batch, learner.expert_bias, false, clock, learner.steps_taken);
  model_->backward(batch, clock);
}

std::vector<RouterRoundingFrame> router_roundings(const SingleRouter& router) {
  const RoundedChoice exact(router, RouterRounding::none);
  const std::vector<KeptRouting> exact_routing = routing_of(router, exact.routed);
  std::vector<RouterRoundingFrame> rows;
  for (const RouterRounding rounding :
       {RouterRounding::none, RouterRounding::operands, RouterRounding::gate_output, RouterRounding::bias}) {
    const RoundedChoice rounded(router, rounding);
    RouterRoundingFrame& row = rows.emplace_back();
    row.layer = router.layer;
    row.rounding = rounding;
    row.max_vio = max_vio(rounded.routed.tokens_per_expert);
    row.bias_values = std::set<float>(rounded.bias.begin(), rounded.bias.end()).size();
    const FlipFrame flips = routing_flips(exact_routing, routing_of(router, rounded.routed)).front();
    row.changed = flips.flip_rate;
    row.margin_tokens = flips.margin_tokens;
    row.margin_flipped = flips.margin_flipped;
  }
  return rows;
}

std::vector<RouterRoundingFrame> router_roundings(const Learner<float>& learner, const Transformer<float>& reference) {
  const RunConfig& config = reference.config();
  std::vector<RouterRoundingFrame> rows;
  if (config.router.force_balance || !reference.replayed().empty()) return rows;
  for (std::size_t moe = size(config.router.n_hash_layers); moe < reference.moe().size(); ++moe) {
    const int layer = config.model.n_dense_layers + to_int(moe);
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
