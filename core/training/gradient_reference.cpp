#include "core/training/gradient_reference.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "core/config/config_field.h"
#include "core/model/agreement.h"
#include "core/model/routing_flips.h"
#include "core/training/router_roundings.h"

namespace moescope {
namespace {

// Sums over the run's gradient g and the reference r.
struct Sums {
  double gg = 0, rr = 0, gr = 0, difference = 0;

  void add(const float* g, const float* r, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const double of_g = g[i], of_r = r[i];
      gg += of_g * of_g;
      rr += of_r * of_r;
      gr += of_g * of_r;
      difference += (of_g - of_r) * (of_g - of_r);
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
    frame.snr_db = difference > 0    ? static_cast<float>(10 * std::log10(rr / difference))
                   : difference == 0 ? std::numeric_limits<float>::infinity()
                                     : static_cast<float>(difference);
    if (gg > 0 && rr > 0) frame.cosine = static_cast<float>(gr / std::sqrt(gg * rr));
    return frame;
  }
};

struct Place {
  int layer;
  GradientGroup group;
};

// Returns the layer and the group of a tensor by its name in parameter_layout().
Place place_of(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  if (!name.starts_with(kLayers))
    return {-1, name.starts_with("tok_embeddings") ? GradientGroup::embedding : GradientGroup::head};
  name.remove_prefix(kLayers.size());
  int layer = 0;
  name.remove_prefix(std::from_chars(name.data(), name.data() + name.size(), layer).ptr + 1 - name.data());
  const GradientGroup group = name.starts_with("attention")     ? GradientGroup::attention
                              : name.starts_with("moe.router")  ? GradientGroup::gate
                              : name.starts_with("moe.experts") ? GradientGroup::experts
                              : name.starts_with("ffn_norm")    ? GradientGroup::all
                                                                : GradientGroup::ffn;
  return {layer, group};
}

using GroupSums = std::array<Sums, kNumGradientGroups>;

void append_frames(int layer, const GroupSums& sums, std::vector<GradientFrame>& frames) {
  for (std::size_t g = 0; g < sums.size(); ++g)
    if (sums[g].gg > 0 || sums[g].rr > 0) frames.push_back(sums[g].frame(layer, static_cast<GradientGroup>(g)));
}

std::vector<GradientFrame> frames_of(const Parameters<float>& parameters, int n_layers, const float* gradients,
                                     const float* reference) {
  constexpr auto kAllGroups = static_cast<std::size_t>(GradientGroup::all);
  std::vector<GroupSums> layers(n_layers);
  GroupSums whole;
  for (const ParameterTensor& tensor : parameters.tensors()) {
    Sums sums;
    for (std::size_t b = 0; b < tensor.blocks(); ++b) {
      const std::size_t at = tensor.offset + b * tensor.outer_stride;
      sums.add(gradients + at, reference + at, tensor.block_elements());
    }
    const Place place = place_of(tensor.name);
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
  return {{model.logits(), model.part().tokens(), model.config().model.vocab}, model.token_losses()};
}

std::vector<std::vector<std::int32_t>> experts_of(const Transformer<float>& model) {
  std::vector<std::vector<std::int32_t>> experts;
  for (const MoeActivations<float>& moe : model.moe()) experts.push_back(moe.router.ids);
  return experts;
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
  if (!model_ || model_->sequences() != batch.sequences || model_->length() != batch.length ||
      model_->top_k() != config_.router.top_k) {
    model_.reset();  // first, so that two models never exist at once
    model_ = std::make_unique<Transformer<float>>(config_, learner.parameters, batch.sequences, batch.length);
  }
  float* gradients = learner.parameters.gradients;
  saved_gradients_.assign(gradients, gradients + learner.parameters.size());
  run(learner, batch, learner.model().replayed());
  const auto frames = [&] {
    return frames_of(learner.parameters, config_.model.n_layers, saved_gradients_.data(), gradients);
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
    run(learner, batch, &experts);
    model_->set_replayed(nullptr);
    add_pinned(frames(), frame.gradients);
  } else {
    add_pinned(std::vector(frame.gradients), frame.gradients);
  }
  std::copy(saved_gradients_.begin(), saved_gradients_.end(), gradients);
}

void GradientReference::run(Learner<float>& learner, const Batch& batch,
                            const std::vector<std::vector<std::int32_t>>* experts) {
  PhaseClock clock;  // not read: the caller counts these passes as telemetry
  clock.start(Phase::other);
  model_->set_replayed(experts);
  model_->forward(batch, learner.expert_bias, false, clock, learner.steps_taken);
  model_->backward(batch, clock);
}

}  // namespace moescope
