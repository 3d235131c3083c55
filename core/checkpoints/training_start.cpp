#include "core/checkpoints/training_start.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <stdexcept>

#include "core/checkpoints/checkpoint_folder.h"
#include "core/checkpoints/checkpoint_model.h"
#include "core/checkpoints/text_sources.h"
#include "core/config/config_difference.h"
#include "core/files/folder_walk.h"
#include "core/files/unreadable.h"
#include "core/model/tokenizer/tokenizer.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_key(const CheckpointConfig& c, const std::string& key, const std::string& reason) {
  refuse(c.path, "'" + key + "' " + reason);
}

// Throws if the trainer does not support the model.
void require_trainable(const CheckpointConfig& c) {
  if (!c.latent)
    refuse_key(c, "model_type",
               "is '" + std::string(c.architecture) +
                   "', whose attention has no latent keys; the trainer takes deepseek_v2 and deepseek_v3");
  if (c.rope[0].kind != RopeSettings::Kind::plain)
    refuse_key(c, "rope_parameters.rope_type", "is not 'default'; the trainer rotates without scaling");
  if (!c.latent->interleaved) refuse_key(c, "rope_interleave", "is false; the trainer rotates neighbouring features");
  if (c.attention_bias) refuse_key(c, "attention_bias", "is true; the trainer's attention has no biases");
  if (c.mlp_bias) refuse_key(c, "mlp_bias", "is true; the trainer's feed-forwards have no biases");
  if (c.tied_embedding) refuse_key(c, "tie_word_embeddings", "is true; the trainer has a head of its own");
  if (c.router.group_by_best && c.router.config.n_groups > 0)
    refuse_key(c, "topk_method", "ranks groups by their best score; the trainer ranks them by their two best");
  const auto dense = [](const CheckpointLayer& layer) { return !layer.moe.value_or(true); };
  const auto first_moe = std::ranges::find_if_not(c.layers, dense);
  if (std::any_of(first_moe, c.layers.end(), dense))
    refuse_key(c, "mlp_layer_types", "has a dense layer after one with experts; the trainer has dense layers first");
  for (const CheckpointLayer& layer : c.layers)
    if (!layer.moe)
      refuse_key(c, "moe_layer_freq", "is above 1; in the trainer all layers after the first have experts");
}

std::string run_name(const std::string& folder) {
  const std::string name = valid_name(fs::path(absolute_path(folder + "/x")).parent_path().filename().string());
  return name.empty() || name.front() == '.' ? "checkpoint" : name;
}

// True if the tokens are the 256 bytes and each id is the value of its byte, as in exported runs whose tokens are
// bytes.
bool is_of_bytes(const Tokenizer& tokenizer) {
  if (tokenizer.end() != 256) return false;
  std::string text;
  std::vector<std::int32_t> ids;
  for (std::int32_t byte = 0; byte < 256; ++byte) {
    if (tokenizer.bytes(byte) != std::string(1, static_cast<char>(byte))) return false;
    if (byte >= 128) continue;  // not valid UTF-8 by itself
    text += static_cast<char>(byte);
    ids.push_back(byte);
  }
  return tokenizer.encode(text, SpecialTokenUse::without) == ids;
}

// Copies the weights of a checkpoint to the master weights of a run.
class WeightCopy {
 public:
  WeightCopy(const CheckpointModel& model, const RunConfig& config, Parameters<float>& parameters)
      : model_(model),
        to_(parameters.weight_view),
        latent_scale_(static_cast<float>(std::sqrt(config.model.norm_eps / kLatentNormEps))) {}

  void copy_all(std::vector<std::vector<float>>& expert_bias) const {
    copy(model_.embedding(), to_.embedding);
    copy(model_.final_norm(), to_.norm);
    copy(model_.head(), to_.output);
    std::size_t moe = 0;
    for (std::size_t i = 0; i < model_.layers().size(); ++i) {
      const CheckpointModel::Layer& from = model_.layers()[i];
      const LayerView<float>& to = to_.layers[i];
      copy(from.attention_norm, to.attention_norm);
      copy(from.ffn_norm, to.ffn_norm);
      copy_attention(from.attention, to);
      if (from.has_experts())
        copy_experts(from.moe, to, expert_bias[moe++]);
      else
        copy(from.dense, to.dense);
    }
    model_.require_pages();
  }

 private:
  static void copy(const std::vector<float>& from, std::span<float> to) { std::ranges::copy(from, to.begin()); }
  static void copy(const StoredMatrix& from, const Matrix<float>& to) {
    for (Index row = 0; row < to.rows; ++row) from.read_outputs(row, 1, to.row(row));
  }
  static void copy(const StoredLinear& from, const Matrix<float>& to) { copy(from.weight, to); }
  void copy(const StoredFeedForward& from, const FeedForwardView<float>& to) const {
    copy(from.gate, to.w13.row_block(0, from.gate.outputs()));
    if (!from.up.empty()) copy(from.up, to.w13.row_block(from.gate.outputs(), from.up.outputs()));
    copy(from.down, to.w2);
  }

  // Copies weights and scales their first `rows` rows, whose outputs go to a norm inside latent attention.
  void copy_normed(const StoredLinear& from, const Matrix<float>& to, Index rows) const {
    copy(from, to);
    for (Index row = 0; row < rows; ++row)
      for (Index i = 0; i < to.cols; ++i) to.at(row, i) *= latent_scale_;
  }

  void copy_attention(const StoredAttention& w, const LayerView<float>& to) const {
    if (w.q.empty()) {
      copy_normed(w.q_a, to.wq_a, to.wq_a.rows);
      copy(w.q_norm, to.q_norm);
      copy(w.q_b, to.wq_b);
    } else {
      copy(w.q, to.wq);
    }
    copy_normed(w.kv_a, to.wkv_a, std::ssize(w.kv_norm));
    copy(w.kv_norm, to.kv_norm);
    copy(w.kv_b, to.wkv_b);
    copy(w.output, to.wo);
  }

  void copy_experts(const StoredExperts& from, const LayerView<float>& to, std::vector<float>& bias) const {
    copy(from.router, to.gate);
    if (!from.choice_bias.empty()) bias = from.choice_bias;
    const Index experts = std::ssize(from.experts), hidden = to.experts.w13.rows / experts,
                out = to.experts.w2.rows / experts;
    for (Index e = 0; e < experts; ++e)
      copy(from.experts[e], {to.experts.w13.row_block(e * hidden, hidden), to.experts.w2.row_block(e * out, out)});
    if (!from.shared.empty()) copy(from.shared, to.shared);
  }

  const CheckpointModel& model_;
  const ModelView<float>& to_;
  float latent_scale_;
};

}  // namespace

TrainingStart::TrainingStart(const std::string& folder) : path_((fs::path(folder) / "config.json").string()) {
  const CheckpointConfig c = read_checkpoint_config(path_);
  require_trainable(c);
  const auto fix = [this]<class Section, class T>(T Section::*member, const auto& value, const char* key) {
    section_of<Section>(config_).*member = static_cast<T>(value);
    fixed_.push_back({member, key});
  };
  config_.name = run_name(folder);
  config_.model.initial_weights = absolute_path(folder);
  const auto dense = std::ranges::count(c.layers, std::optional(false), &CheckpointLayer::moe);
  fix(&ModelConfig::vocab, c.vocab, "vocab_size");
  fix(&ModelConfig::dim, c.dim, "hidden_size");
  fix(&ModelConfig::n_layers, c.layers.size(), "num_hidden_layers");
  fix(&ModelConfig::n_dense_layers, dense, "first_k_dense_replace");
  if (dense > 0) fix(&ModelConfig::dense_inter, c.dense_width, "intermediate_size");
  fix(&ModelConfig::n_heads, c.heads, "num_attention_heads");
  fix(&ModelConfig::q_lora_rank, c.latent->q_rank, "q_lora_rank");
  fix(&ModelConfig::kv_lora_rank, c.latent->kv_rank, "kv_lora_rank");
  fix(&ModelConfig::qk_nope_head_dim, c.latent->nope, "qk_nope_head_dim");
  fix(&ModelConfig::qk_rope_head_dim, c.latent->rope, "qk_rope_head_dim");
  fix(&ModelConfig::v_head_dim, c.latent->value, "v_head_dim");
  fix(&ModelConfig::rope_theta, c.rope[0].theta, "rope_theta");
  fix(&ModelConfig::norm_eps, c.norm_eps, "rms_norm_eps");
  if (config_.model.n_dense_layers == config_.model.n_layers) return;
  fix(&ModelConfig::n_experts, c.experts, "n_routed_experts");
  fix(&ModelConfig::moe_inter, c.expert_width, "moe_intermediate_size");
  fix(&ModelConfig::n_shared, c.shared_width / c.expert_width, "n_shared_experts");
  fix(&ModelConfig::shared_expert_gate, false, "model_type");
  fix(&ModelConfig::latent_dim, 0, "model_type");
  const RouterConfig& r = c.router.config;
  fix(&RouterConfig::top_k, r.top_k, "num_experts_per_tok");
  fix(&RouterConfig::score_func, r.score_func, "model_type");
  fix(&RouterConfig::n_groups, r.n_groups, "n_group");
  fix(&RouterConfig::n_limited_groups, r.n_limited_groups, "topk_group");
  fix(&RouterConfig::route_norm, r.route_norm, "norm_topk_prob");
  fix(&RouterConfig::route_scale, r.route_scale, "routed_scaling_factor");
  fix(&RouterConfig::n_hash_layers, 0, "model_type");
  int& ranks = config_.parallel.ranks;
  while (config_.model.n_experts % ranks) --ranks;
  config_.parallel.ranks_per_node = ranks;
}

std::vector<ConfigProblem> TrainingStart::contradictions(const RunConfig& config) const {
  std::vector<ConfigProblem> problems;
  for (const auto& [setting, key] : fixed_) {
    const ConfigValue required = setting.field().get(config), configured = setting.field().get(config_);
    if (required != configured)
      problems.push_back(
          {"", 0, setting.key(),
           "is " + to_string(required) + ", but '" + key + "' of " + path_ + " requires " + to_string(configured)});
  }
  return problems;
}

RunConfig run_from_checkpoint(const std::string& path) {
  RunConfig config = TrainingStart(checkpoint_folder(path)).config();
  const std::string tokenizer = (fs::path(config.model.initial_weights) / "tokenizer.json").string();
  require_inside(config.model.initial_weights, tokenizer);
  if (fs::exists(tokenizer) && !(config.model.vocab == 256 && is_of_bytes(Tokenizer(tokenizer))))
    config.data.tokenizer = tokenizer;
  return config;
}

void load_initial_weights(const RunConfig& config, Parameters<float>& parameters,
                          std::vector<std::vector<float>>& expert_bias) {
  // Settings of the router may differ from config.json, as in twins; the weights do not depend on them.
  for (const ConfigProblem& problem : TrainingStart(config.model.initial_weights).contradictions(config))
    if (problem.key.starts_with(kSectionName<ModelConfig>)) throw std::runtime_error(problem.text());
  const CheckpointModel model(config.model.initial_weights);
  WeightCopy(model, config, parameters).copy_all(expert_bias);
}

}  // namespace moescope
