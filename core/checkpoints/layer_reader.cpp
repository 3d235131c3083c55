// Reads the layers of a checkpoint by a table of the names of their tensors.
#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <optional>

#include "core/checkpoints/checkpoint_config.h"
#include "core/checkpoints/checkpoint_model.h"
#include "core/checkpoints/rope_angles.h"
#include "core/checkpoints/weight_reader.h"

namespace moescope {
namespace {

using QueryKeyNorm = GroupedShape::QueryKeyNorm;

using Layout = ExpertNames::Layout;

std::string expert_name(std::string name, int expert) {
  const std::size_t at = name.find("{}");
  return at == std::string::npos ? name : name.replace(at, 2, std::to_string(expert));
}

// Returns the second layout if the file has its stacked experts, else the first.
const LayerNames& names_in(const LayerLayouts& layouts, const WeightReader& weights, const std::string& prefix) {
  return layouts[1].router && weights.has(prefix + layouts[1].experts->gate) ? layouts[1] : layouts[0];
}

// Reads the tensors of one layer.
class LayerReader {
 public:
  LayerReader(const CheckpointConfig& config, std::size_t layer, WeightReader& weights,
              const CheckpointModel::Roundings& roundings)
      : c_(config),
        shape_(config.layers[layer]),
        prefix_(fmt::format("model.layers.{}.", layer)),
        names_(names_in(*config.layouts, weights, prefix_)),
        weights_(weights),
        roundings_(roundings) {}

  void read(CheckpointModel::Layer& layer) {
    layer.attention_norm = weights_.vector(prefix_ + "input_layernorm.weight", c_.dim);
    layer.ffn_norm = weights_.vector(prefix_ + "post_attention_layernorm.weight", c_.dim);
    begin(GemmClass::attention);
    layer.attention = c_.latent ? latent_attention() : grouped_attention();
    layer.attention.output.added_factor = added_factor();
    layer.kind = kind_of(layer.attention);
    if (shape_.moe.value_or(weights_.has(prefix_ + names_.router + ".weight")))
      layer.moe = experts();
    else
      layer.dense = feed_forward("mlp", GemmClass::dense_ffn, c_.dense_width);
  }

 private:
  const OperandRounding* rounding_of(GemmClass gemm_class) const {
    return &roundings_[static_cast<std::size_t>(gemm_class)];
  }
  void begin(GemmClass gemm_class) { weights_.set_rounding(rounding_of(gemm_class)); }
  std::string attention_name(const char* name) const { return prefix_ + "self_attn." + name; }

  float added_factor() const { return static_cast<float>(c_.residual_multiplier); }

  AttentionShape attention_shape() const {
    const double scale = c_.attention_scale != 0 ? c_.attention_scale : 1 / std::sqrt(double{1} * c_.query_dim());
    return {.heads = c_.heads,
            .key_heads = c_.kv_heads(),
            .query_dim = c_.query_dim(),
            .value_dim = c_.value_dim(),
            .scale = c_.latent ? scale * rope_score_factor(c_.rope_of(shape_)) : scale,
            .window = shape_.window};
  }

  std::unique_ptr<AttentionKind<float>> kind_of(const StoredAttention& w) const {
    if (c_.latent)
      return std::make_unique<LatentAttention<float>>(
          attention_shape(), *c_.latent,
          LatentLayers<float>{&w.q, &w.q_a, &w.q_b, &w.kv_a, &w.kv_b, &w.output, w.q_norm, w.kv_norm});
    return std::make_unique<GroupedAttention>(attention_shape(), c_.grouped,
                                              GroupedLayers{&w.q, &w.k, &w.v, &w.output, w.q_norm, w.k_norm, w.sinks});
  }

  StoredLinear attention_linear(const char* name, Index outputs, Index inputs, bool bias) {
    return weights_.linear(attention_name(name), outputs, inputs, bias, "attention_bias");
  }

  StoredAttention latent_attention() {
    const LatentShape& l = *c_.latent;
    const Index heads = c_.heads, query = c_.query_dim();
    StoredAttention w;
    if (l.q_rank > 0) {
      w.q_a = attention_linear("q_a_proj", l.q_rank, c_.dim, c_.attention_bias);
      w.q_norm = weights_.vector(attention_name("q_a_layernorm.weight"), l.q_rank);
      w.q_b = attention_linear("q_b_proj", heads * query, l.q_rank, false);
    } else {
      w.q = attention_linear("q_proj", heads * query, c_.dim, false);
    }
    w.kv_a = attention_linear("kv_a_proj_with_mqa", l.kv_rank + l.rope, c_.dim, c_.attention_bias);
    w.kv_norm = weights_.vector(attention_name("kv_a_layernorm.weight"), l.kv_rank);
    w.kv_b = attention_linear("kv_b_proj", heads * (l.nope + l.value), l.kv_rank, false);
    w.output = attention_linear("o_proj", c_.dim, heads * l.value, c_.attention_bias);
    return w;
  }

  StoredAttention grouped_attention() {
    const GroupedShape& g = c_.grouped;
    const Index queries = Index{c_.heads} * g.head_dim, keys = Index{g.kv_heads} * g.head_dim;
    StoredAttention w;
    w.q = attention_linear("q_proj", queries, c_.dim, c_.qkv_bias);
    w.k = attention_linear("k_proj", keys, c_.dim, c_.qkv_bias);
    w.v = attention_linear("v_proj", keys, c_.dim, c_.qkv_bias);
    if (g.norm != QueryKeyNorm::none) {
      const bool whole = g.norm == QueryKeyNorm::whole;
      w.q_norm = weights_.vector(attention_name("q_norm.weight"), whole ? queries : g.head_dim);
      w.k_norm = weights_.vector(attention_name("k_norm.weight"), whole ? keys : g.head_dim);
    }
    if (g.sinks) w.sinks = weights_.vector(attention_name("sinks"), c_.heads);
    w.output = attention_linear("o_proj", c_.dim, queries, c_.attention_bias);
    return w;
  }

  StoredFeedForward feed_forward(const std::string& name, GemmClass gemm_class, Index width) {
    begin(gemm_class);
    const std::string at = prefix_ + name;
    StoredFeedForward w{weights_.linear(at + ".gate_proj", width, c_.dim, c_.mlp_bias, "mlp_bias"),
                        weights_.linear(at + ".up_proj", width, c_.dim, c_.mlp_bias, "mlp_bias"),
                        weights_.linear(at + ".down_proj", c_.dim, width, c_.mlp_bias, "mlp_bias")};
    w.down.added_factor = added_factor();
    return w;
  }

  StoredExperts experts() {
    StoredExperts w;
    w.added_factor = added_factor();
    w.router.weight = weights_.matrix(prefix_ + names_.router + ".weight", c_.experts, c_.dim);
    w.router.rounding = rounding_of(GemmClass::router_gate);
    if (c_.router.logit_bias) w.router.bias = weights_.vector(prefix_ + names_.router + ".bias", c_.experts);
    if (c_.router.choice_bias) w.choice_bias = weights_.vector(prefix_ + names_.router_bias, c_.experts);
    w.experts = routed_experts();
    for (std::size_t e = 0; e < w.experts.size(); ++e)
      for (StoredLinear* linear : {&w.experts[e].gate, &w.experts[e].up, &w.experts[e].down})
        linear->rounding = &roundings_[kNumGemmClasses + e];
    if (c_.shared_width > 0) w.shared = feed_forward(names_.shared, GemmClass::shared_experts, c_.shared_width);
    if (c_.shared_gate) w.shared_gate.weight = weights_.matrix(prefix_ + names_.shared_gate + ".weight", 1, c_.dim);
    return w;
  }

  std::optional<double> clamp() const { return c_.clamped_unit ? std::optional(kUnitLimit) : std::nullopt; }

  std::vector<StoredFeedForward> routed_experts() {
    const ExpertNames& names = *names_.experts;
    return names.layout == Layout::single ? single_experts(names) : stacked_experts(names);
  }

  std::vector<StoredFeedForward> single_experts(const ExpertNames& names) {
    std::vector<StoredFeedForward> experts;
    for (int e = 0; e < c_.experts; ++e)
      experts.push_back(
          {weights_.linear(prefix_ + expert_name(names.gate, e), c_.expert_width, c_.dim, false, "model_type"),
           weights_.linear(prefix_ + expert_name(names.up, e), c_.expert_width, c_.dim, false, "model_type"),
           weights_.linear(prefix_ + expert_name(names.down, e), c_.dim, c_.expert_width, false, "model_type"),
           clamp()});
    return experts;
  }

  std::vector<StoredFeedForward> stacked_experts(const ExpertNames& names) {
    const std::string gate = prefix_ + names.gate, down = prefix_ + names.down;
    const bool biased = names.layout == Layout::stacked_across;
    const Index width = c_.expert_width;
    const auto matrices = [&](const std::string& name, Index outputs, Index inputs) {
      const std::string packed = name + "_blocks";
      return weights_.stack(weights_.has(packed) ? packed : name, c_.experts, outputs, inputs,
                            biased && !weights_.has(packed));
    };
    std::vector<StoredLinear> gates = matrices(gate, 2 * width, c_.dim), downs = matrices(down, c_.dim, width);
    if (biased) {
      const auto gate_bias = weights_.stacked_vectors(gate + "_bias", c_.experts, 2 * width);
      const auto down_bias = weights_.stacked_vectors(down + "_bias", c_.experts, c_.dim);
      for (std::size_t e = 0; e < gates.size(); ++e) {
        gates[e].bias = gate_bias[e];
        downs[e].bias = down_bias[e];
      }
    }
    std::vector<StoredFeedForward> experts;
    for (std::size_t e = 0; e < gates.size(); ++e) experts.push_back({gates[e], {}, downs[e], clamp()});
    return experts;
  }

  const CheckpointConfig& c_;
  const CheckpointLayer& shape_;
  std::string prefix_;
  const LayerNames& names_;
  WeightReader& weights_;
  const CheckpointModel::Roundings& roundings_;
};

}  // namespace

void CheckpointModel::read_layer(std::size_t layer, WeightReader& weights) {
  // Earlier weights were in the file, so that the sizes in a damaged config.json take no memory here.
  roundings_[layer].resize(kNumGemmClasses + size(config_.experts));
  LayerReader(config_, layer, weights, roundings_[layer]).read(layers_.emplace_back());
}

}  // namespace moescope
