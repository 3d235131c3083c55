#include "core/checkpoints/checkpoint_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>

#include "core/checkpoints/config_keys.h"
#include "core/files/folder_walk.h"
#include "core/files/input_file.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/files/unreadable.h"

namespace moescope {
namespace {

using Json = nlohmann::json;
using QueryKeyNorm = GroupedShape::QueryKeyNorm;

constexpr std::uint64_t kLargestConfig = std::uint64_t{1} << 20;
constexpr int kMaxCheckpointLayers = 10'000, kMaxCheckpointExperts = 1 << 16, kMaxHeads = 1 << 16, kMaxWidth = 1 << 24;
constexpr double kMaxFactor = 1e6, kMaxPositions = 1e9;

// Keys of training, generation and other programs, which do not affect the forward pass.
constexpr std::string_view kOtherKeys =
    "architectures attention_dropout attn_implementation aux_loss_alpha auto_map bos_token_id "
    "chunk_size_feed_forward dtype embd_pdrop eos_token_id ep_size hidden_dropout id2label initial_context_length "
    "initializer_range is_decoder label2id max_position_embeddings max_window_layers model_type "
    "num_nextn_predict_layers output_attentions output_hidden_states output_router_logits pad_token_id "
    "pretraining_tp problem_type resid_pdrop return_dict router_aux_loss_coef router_jitter_noise seq_aux "
    "sep_token_id tokenizer_class torch_dtype transformers_version unsloth_fixed use_cache";

// `positions`: max_position_embeddings, if config.json has it.
RopeSettings read_rope_object(ConfigKeys& keys, double theta, std::optional<double> positions) {
  RopeSettings rope;
  const std::string kind = keys.choice({"rope_type", "type"}, {"default", "linear", "yarn", "llama3"}, "default");
  rope.theta = keys.number({"rope_theta"}, 1, 1e12, theta);
  if (keys.number({"partial_rotary_factor"}, 0, 1, 1.0) != 1)
    keys.fail("partial_rotary_factor", "is not 1; allowed: 1");
  if (kind == "default") {
    keys.ignore_key({"factor", "original_max_position_embeddings"});
    return rope;
  }
  rope.original_positions = keys.number({"original_max_position_embeddings"}, 1, kMaxPositions, positions);
  const bool by_positions = kind == "yarn" && positions;
  rope.factor =
      keys.number({"factor"}, 1, kMaxFactor,
                  by_positions ? std::max(1.0, *positions / rope.original_positions) : std::optional<double>());
  if (kind == "linear") rope.kind = RopeSettings::Kind::linear;
  if (kind == "yarn") {
    rope.kind = RopeSettings::Kind::yarn;
    rope.beta_fast = keys.number({"beta_fast"}, 1e-6, kMaxFactor, 32.0);
    rope.beta_slow = keys.number({"beta_slow"}, 1e-6, kMaxFactor, 1.0);
    rope.truncate = keys.flag("truncate").value_or(true);
    rope.attention_factor = keys.number_if_there("attention_factor", 0, kMaxFactor);
    rope.mscale = keys.number_if_there("mscale", 0, kMaxFactor);
    rope.mscale_all_dim = keys.number_if_there("mscale_all_dim", 0, kMaxFactor);
  }
  if (kind == "llama3") {
    rope.kind = RopeSettings::Kind::llama3;
    rope.low_freq_factor = keys.number({"low_freq_factor"}, 1e-6, kMaxFactor);
    rope.high_freq_factor = keys.number({"high_freq_factor"}, 1e-6, kMaxFactor);
    if (rope.high_freq_factor <= rope.low_freq_factor) keys.fail("high_freq_factor", "is not above low_freq_factor");
  }
  return rope;
}

RopeSettings rope_in(const Json& object, ConfigKeys& keys, const std::string& prefix, double theta) {
  ConfigKeys inside(object, keys.path(), prefix);
  const RopeSettings rope =
      read_rope_object(inside, theta, keys.number_if_there("max_position_embeddings", 1, kMaxPositions));
  inside.require_all_read();
  if (keys.find({"rope_theta"}) && rope.theta != theta)
    keys.fail("rope_theta", "differs from '" + prefix + "rope_theta'");
  return rope;
}

// transformers 4 has rope_theta and rope_scaling; transformers 5 has rope_parameters, which may hold one object for
// each kind of attention. `plain`: settings of a config.json without these keys.
void read_rope(ConfigKeys& keys, CheckpointConfig& c, const RopeSettings& plain) {
  const double theta = keys.number({"rope_theta"}, 1, 1e12, plain.theta);
  if (keys.number({"partial_rotary_factor"}, 0, 1, 1.0) != 1)
    keys.fail("partial_rotary_factor", "is not 1; allowed: 1");
  const Json* rope_json = keys.find({"rope_parameters", "rope_scaling"});
  if (!rope_json) {
    c.rope = {plain, plain};
    for (RopeSettings& rope : c.rope) rope.theta = theta;
    return;
  }
  if (!rope_json->is_object()) keys.fail("rope_parameters", "is not an object");
  constexpr const char* kKinds[] = {"full_attention", "sliding_attention"};
  const bool by_kind = rope_json->contains(kKinds[0]) || rope_json->contains(kKinds[1]);
  if (!by_kind) {
    c.rope[0] = c.rope[1] = rope_in(*rope_json, keys, "rope_parameters.", theta);
    return;
  }
  for (const auto& [key, value] : rope_json->items()) {
    const auto kind = std::ranges::find(kKinds, key);
    if (kind == std::end(kKinds) || !value.is_object())
      keys.fail("rope_parameters", "has '" + printable(key) + "', which is not known");
    c.rope[kind - kKinds] = rope_in(value, keys, "rope_parameters." + key + '.', theta);
  }
}

// Reads a list with the kind of each layer. Returns for each layer whether it has the second kind; empty if config.json
// has no such list.
std::vector<bool> read_kinds(ConfigKeys& keys, const CheckpointConfig& c, const char* key,
                             const std::array<std::string, 2>& kinds) {
  const Json* list = keys.find({key});
  if (!list) return {};
  if (!list->is_array() || list->size() != c.layers.size())
    keys.fail(key, fmt::format("is not a list of {} layers", c.layers.size()));
  std::vector<bool> second;
  for (const Json& kind : *list) {
    if (kind != kinds[0] && kind != kinds[1])
      keys.fail(key, "has " + printable(kind.dump(-1, ' ', true)) + "; allowed: " + kinds[0] + ", " + kinds[1]);
    second.push_back(kind == kinds[1]);
  }
  return second;
}

// Which layers of an architecture have sliding attention.
struct WindowRule {
  bool used = false;    // some layers may have it
  bool listed = false;  // the list layer_types decides if it exists
  int missing = 0;      // default of sliding_window; 0: none
  bool required = false;
};

// Reads the window of each layer. Without a list, the layers with sliding attention are those for which
// `sliding(layer)` is true.
void read_windows(ConfigKeys& keys, CheckpointConfig& c, const WindowRule& rule, const auto& sliding) {
  int window = 0;
  if (!keys.is_null("sliding_window"))
    window = keys.count({"sliding_window"}, rule.used ? 1 : 0, kMaxWidth, rule.missing);
  const std::vector<bool> slide = read_kinds(keys, c, "layer_types", {"full_attention", "sliding_attention"});
  for (std::size_t i = 0; i < c.layers.size(); ++i) {
    CheckpointLayer& layer = c.layers[i];
    const bool by_rule = rule.used && (window > 0 || rule.required) && sliding(i);
    layer.sliding = slide.empty() ? by_rule : slide[i];
    if (layer.sliding != by_rule && !(rule.used && rule.listed))
      keys.fail(
          "layer_types",
          fmt::format(
              "has another kind of attention for layer {} than transformers computes by the other keys, which is {}", i,
              by_rule ? "sliding_attention" : "full_attention"));
    if (layer.sliding && window == 0) keys.fail("sliding_window", "is missing, and layers have sliding attention");
    layer.window = layer.sliding ? window : 0;
  }
}
void read_no_windows(ConfigKeys& keys, CheckpointConfig& c) {
  read_windows(keys, c, {}, [](std::size_t) { return false; });
}

// Defaults of the shape of grouped attention; 0: heads, and dim / heads.
struct MissingHeads {
  int kv_heads = 0, head_dim = 0;
};

void read_grouped(ConfigKeys& keys, CheckpointConfig& c, const MissingHeads& missing) {
  const int kv_heads = missing.kv_heads > 0 && !keys.is_null("num_key_value_heads") ? missing.kv_heads : c.heads;
  c.grouped.kv_heads = keys.count({"num_key_value_heads"}, 1, kMaxHeads, kv_heads);
  if (c.heads % c.grouped.kv_heads)
    keys.fail("num_key_value_heads", fmt::format("does not divide num_attention_heads, {}", c.heads));
  c.grouped.head_dim =
      keys.count({"head_dim"}, 2, kMaxWidth, missing.head_dim > 0 ? missing.head_dim : std::max(2, c.dim / c.heads));
  if (c.grouped.head_dim % 2) keys.fail("head_dim", "is odd: RoPE turns pairs");
  c.grouped.norm_eps = c.norm_eps;
}

// `number` is the architecture's name for the number of experts.
void read_experts(ConfigKeys& keys, CheckpointConfig& c, const char* number, std::initializer_list<const char*> width) {
  c.experts = keys.count({number, "num_experts", "num_local_experts", "n_routed_experts"}, 0, kMaxCheckpointExperts);
  if (c.experts == 0) {
    keys.ignore_key({"num_experts_per_tok", "moe_intermediate_size"});
    return;
  }
  c.router.config.top_k = keys.count({"num_experts_per_tok", "experts_per_token"}, 1, c.experts);
  c.expert_width = keys.count(width, 1, kMaxWidth);
}

// Reads a router with a softmax over all experts, whose top_k largest scores choose the experts.
void read_softmax_router(ConfigKeys& keys, CheckpointConfig& c, bool normalised) {
  c.router.config.score_func = ScoreFunc::softmax;
  c.router.config.route_norm = keys.flag("norm_topk_prob").value_or(normalised);
}

// Reads which layers have experts, by the keys of Qwen.
void read_sparse_layers(ConfigKeys& keys, CheckpointConfig& c) {
  const int step = keys.count({"decoder_sparse_step"}, 1, kMaxCheckpointLayers, 1);
  for (std::size_t i = 0; i < c.layers.size(); ++i) c.layers[i].moe = c.experts > 0 && (to_int(i) + 1) % step == 0;
  const Json* dense = keys.find({"mlp_only_layers"});
  if (!dense) return;
  if (!dense->is_array()) keys.fail("mlp_only_layers", "is not a list");
  for (const Json& layer : *dense) {
    if (!layer.is_number_integer() || layer.get<double>() < 0) keys.fail("mlp_only_layers", "is not a list of layers");
    if (layer.get<double>() < c.layers.size()) c.layers[layer.get<std::size_t>()].moe = false;
  }
}

void read_latent(ConfigKeys& keys, CheckpointConfig& c) {
  LatentShape latent;
  constexpr int kMissingQueryRank = 1536;
  latent.q_rank = keys.is_null("q_lora_rank") ? 0 : keys.count({"q_lora_rank"}, 1, kMaxWidth, kMissingQueryRank);
  latent.kv_rank = keys.count({"kv_lora_rank"}, 1, kMaxWidth);
  latent.nope = keys.count({"qk_nope_head_dim"}, 1, kMaxWidth);
  latent.rope = keys.count({"qk_rope_head_dim"}, 2, kMaxWidth);
  latent.value = keys.count({"v_head_dim"}, 1, kMaxWidth);
  if (latent.rope % 2) keys.fail("qk_rope_head_dim", "is odd: RoPE turns pairs");
  latent.interleaved = keys.flag("rope_interleave").value_or(true);
  latent.norm_eps = kLatentNormEps;
  c.latent = latent;
  if (keys.count({"num_key_value_heads"}, 1, kMaxHeads, c.heads) != c.heads)
    keys.fail("num_key_value_heads", "differs from num_attention_heads; latent attention has as many");
  keys.ignore_key({"head_dim", "qk_head_dim"});
}

// Defaults of DeepSeek-V2 and -V3.
struct DeepSeekDefaults {
  int shared, first_dense, n_groups, n_limited_groups;
  double route_scale;
};

void read_groups(ConfigKeys& keys, CheckpointConfig& c, const DeepSeekDefaults& missing) {
  RouterConfig& router = c.router.config;
  const int min_groups = missing.n_groups > 0 ? 1 : 0;
  router.n_groups = keys.count({"n_group"}, min_groups, kMaxCheckpointExperts, missing.n_groups);
  router.n_limited_groups = keys.count({"topk_group"}, min_groups, kMaxCheckpointExperts, missing.n_limited_groups);
  if (c.experts == 0) return;
  if (router.n_limited_groups > router.n_groups) keys.fail("topk_group", "is more than n_group");
  if (router.n_groups <= 1 || router.n_limited_groups == 0) {
    router.n_groups = router.n_limited_groups = 0;
    return;
  }
  if (c.experts % router.n_groups) keys.fail("n_group", "does not divide the experts");
  if (router.top_k > router.n_limited_groups * (c.experts / router.n_groups))
    keys.fail("num_experts_per_tok", "is more than the experts of topk_group groups");
}

// Reads the keys that DeepSeek-V2 and -V3 have in common.
void read_deepseek(ConfigKeys& keys, CheckpointConfig& c, const DeepSeekDefaults& missing) {
  read_latent(keys, c);
  read_no_windows(keys, c);
  read_rope(keys, c, {});
  read_experts(keys, c, "n_routed_experts", {"moe_intermediate_size"});
  c.router.config.route_scale = keys.number({"routed_scaling_factor"}, -kMaxFactor, kMaxFactor, missing.route_scale);
  c.dense_width = keys.count({"intermediate_size"}, 1, kMaxWidth);
  const int most_shared = kMaxWidth / std::max(1, c.expert_width);
  const int shared =
      keys.is_null("n_shared_experts") ? 0 : keys.count({"n_shared_experts"}, 0, most_shared, missing.shared);
  if (c.experts > 0) c.shared_width = c.expert_width * shared;
  const int first = keys.count({"first_k_dense_replace"}, 0, kMaxCheckpointLayers, missing.first_dense);
  // With moe_layer_freq n, other programs put experts into every n-th layer, transformers into all layers.
  const bool by_tensors = keys.count({"moe_layer_freq"}, 1, kMaxCheckpointLayers, 1) > 1;
  for (std::size_t i = 0; i < c.layers.size(); ++i) {
    const bool moe = c.experts > 0 && to_int(i) >= first;
    if (!moe || !by_tensors) c.layers[i].moe = moe;
  }
  c.attention_bias = keys.flag("attention_bias").value_or(false);
}

void read_deepseek_v2(ConfigKeys& keys, CheckpointConfig& c) {
  constexpr DeepSeekDefaults kDefaults{2, 0, 0, 0, 1.0};
  read_deepseek(keys, c, kDefaults);
  if (!c.latent->interleaved)
    c.notes.push_back(c.path + ": 'rope_interleave' is false; transformers does not read this key of deepseek_v2");
  c.latent->interleaved = true;
  keys.choice({"scoring_func"}, {"softmax"}, "softmax");
  const std::string method = keys.choice({"topk_method"}, {"greedy", "gready", "group_limited_greedy"}, "greedy");
  if (method == "group_limited_greedy") {
    keys.allow_null({"n_group", "topk_group"});
    read_groups(keys, c, kDefaults);
  } else {
    keys.ignore_key({"n_group", "topk_group"});
  }
  c.router.config.score_func = ScoreFunc::softmax;
  c.router.config.route_norm = false;
  keys.ignore_key({"norm_topk_prob"});  // transformers takes the scores as mixing weights regardless of this key
  c.router.group_by_best = true;
  c.mlp_bias = keys.flag("mlp_bias").value_or(false);
}

void read_deepseek_v3(ConfigKeys& keys, CheckpointConfig& c) {
  constexpr DeepSeekDefaults kMissing{1, 3, 8, 4, 2.5};
  read_deepseek(keys, c, kMissing);
  read_groups(keys, c, kMissing);
  keys.choice({"scoring_func"}, {"sigmoid"}, "sigmoid");
  keys.choice({"topk_method"}, {"noaux_tc"}, "noaux_tc");
  c.router.config.route_norm = keys.flag("norm_topk_prob").value_or(true);
  c.router.choice_bias = true;
  if (keys.flag("mlp_bias").value_or(false))
    c.notes.push_back(c.path + ": 'mlp_bias' is true; as in transformers, deepseek_v3 has no such biases");
}

void read_olmoe(ConfigKeys& keys, CheckpointConfig& c) {
  read_grouped(keys, c, {});
  read_no_windows(keys, c);
  read_rope(keys, c, {});
  c.grouped.norm = QueryKeyNorm::whole;
  c.grouped.clip = keys.number({"clip_qkv"}, 0, 1e30, 0.0);
  read_experts(keys, c, "num_experts", {"intermediate_size"});
  read_softmax_router(keys, c, false);
  c.qkv_bias = c.attention_bias = keys.flag("attention_bias").value_or(false);
}

constexpr int kQwenWindow = 4096;  // default of sliding_window

void read_qwen2_moe(ConfigKeys& keys, CheckpointConfig& c) {
  read_grouped(keys, c, {.kv_heads = 16});
  read_rope(keys, c, {});
  read_experts(keys, c, "num_experts", {"moe_intermediate_size"});
  read_softmax_router(keys, c, false);
  read_sparse_layers(keys, c);
  const int below = keys.count({"max_window_layers"}, 0, kMaxCheckpointLayers, 28);
  read_windows(keys, c,
               {.used = keys.flag("use_sliding_window").value_or(false), .listed = true, .missing = kQwenWindow},
               [&](std::size_t layer) { return layer % 2 == 0 && to_int(layer) < below; });
  c.dense_width = keys.count({"intermediate_size"}, 1, kMaxWidth);
  c.shared_width = keys.count({"shared_expert_intermediate_size"}, 1, kMaxWidth);
  c.shared_gate = true;
  c.qkv_bias = keys.flag("qkv_bias").value_or(true);
}

void read_qwen3_moe(ConfigKeys& keys, CheckpointConfig& c) {
  read_grouped(keys, c, {.kv_heads = 4});
  read_rope(keys, c, {});
  c.grouped.norm = QueryKeyNorm::head;
  read_experts(keys, c, "num_experts", {"moe_intermediate_size"});
  read_softmax_router(keys, c, false);
  read_sparse_layers(keys, c);
  read_windows(keys, c, {.used = keys.flag("use_sliding_window").value_or(false), .missing = kQwenWindow},
               [](std::size_t) { return true; });
  c.dense_width = keys.count({"intermediate_size"}, 1, kMaxWidth);
  c.qkv_bias = c.attention_bias = keys.flag("attention_bias").value_or(false);
}

void read_mixtral(ConfigKeys& keys, CheckpointConfig& c) {
  read_grouped(keys, c, {.kv_heads = 8});
  read_rope(keys, c, {.theta = 1e6});
  read_experts(keys, c, "num_local_experts", {"intermediate_size"});
  c.router.config.score_func = ScoreFunc::softmax;
  read_windows(keys, c, {.used = true}, [](std::size_t) { return true; });
}

void read_gpt_oss(ConfigKeys& keys, CheckpointConfig& c) {
  read_grouped(keys, c, {.kv_heads = 8, .head_dim = 64});
  read_rope(
      keys, c,
      {.kind = RopeSettings::Kind::yarn, .theta = 150000, .factor = 32, .original_positions = 4096, .truncate = false});
  c.grouped.sinks = true;
  read_experts(keys, c, "num_local_experts", {"intermediate_size"});
  c.router.config.score_func = ScoreFunc::softmax;
  c.router.choose_by_logit = c.router.logit_bias = true;
  read_windows(keys, c, {.used = true, .listed = true, .missing = 128, .required = true},
               [](std::size_t layer) { return layer % 2 == 0; });
  c.clamped_unit = true;
  if (keys.number({"swiglu_limit"}, 0, 1e30, kUnitLimit) != kUnitLimit)
    c.notes.push_back(c.path + ": 'swiglu_limit' is not 7; as in transformers, which does not read this key, it is 7");
  c.qkv_bias = c.attention_bias = keys.flag("attention_bias").value_or(true);
}

void read_granitemoe(ConfigKeys& keys, CheckpointConfig& c) {
  read_grouped(keys, c, {});
  read_no_windows(keys, c);
  read_rope(keys, c, {});
  read_experts(keys, c, "num_local_experts", {"intermediate_size"});
  c.router.config.score_func = ScoreFunc::softmax;
  c.router.choose_by_logit = true;
  c.attention_scale = keys.number({"attention_multiplier"}, 1e-30, 1e30, 1.0);
  c.embedding_multiplier = keys.number({"embedding_multiplier"}, -1e30, 1e30, 1.0);
  c.residual_multiplier = keys.number({"residual_multiplier"}, -1e30, 1e30, 1.0);
  c.logits_divisor = keys.number({"logits_scaling"}, 1e-30, 1e30, 1.0);
  c.qkv_bias = c.attention_bias = keys.flag("attention_bias").value_or(false);
}

using Layout = ExpertNames::Layout;

constexpr ExpertNames kTensorsPerExpert = {Layout::single, "mlp.experts.{}.gate_proj", "mlp.experts.{}.up_proj",
                                           "mlp.experts.{}.down_proj"};
constexpr ExpertNames kStacked = {Layout::stacked, "mlp.experts.gate_up_proj", nullptr, "mlp.experts.down_proj"};
constexpr ExpertNames kMixtral = {Layout::single, "block_sparse_moe.experts.{}.w1", "block_sparse_moe.experts.{}.w3",
                                  "block_sparse_moe.experts.{}.w2"};
constexpr ExpertNames kGptOss = {Layout::stacked_across, "mlp.experts.gate_up_proj", nullptr, "mlp.experts.down_proj"};
constexpr ExpertNames kGranite = {Layout::stacked, "block_sparse_moe.input_linear.weight", nullptr,
                                  "block_sparse_moe.output_linear.weight"};
constexpr ExpertNames kGraniteStacked = {Layout::stacked, "block_sparse_moe.experts.gate_up_proj", nullptr,
                                         "block_sparse_moe.experts.down_proj"};

constexpr const char* kChoiceBias = "mlp.gate.e_score_correction_bias";

// Returns the layouts of a router "mlp.gate" whose experts are stored one by one or stacked.
constexpr LayerLayouts single_or_stacked(const char* choice_bias, const char* shared, const char* shared_gate) {
  return {LayerNames{"mlp.gate", choice_bias, &kTensorsPerExpert, shared, shared_gate},
          LayerNames{"mlp.gate", choice_bias, &kStacked, shared, shared_gate}};
}

struct ArchitectureRow {
  const char* name;
  const char* other_name;  // another model_type for the same architecture; nullptr: none
  double norm_eps;         // default of rms_norm_eps
  void (*read)(ConfigKeys&, CheckpointConfig&);
  LayerLayouts layouts;
};
constexpr ArchitectureRow kArchitectures[] = {
    {"deepseek_v2", nullptr, 1e-6, read_deepseek_v2, single_or_stacked(nullptr, "mlp.shared_experts", nullptr)},
    {"deepseek_v3", "kimi_k2", 1e-6, read_deepseek_v3, single_or_stacked(kChoiceBias, "mlp.shared_experts", nullptr)},
    {"olmoe", nullptr, 1e-5, read_olmoe, single_or_stacked(nullptr, nullptr, nullptr)},
    {"qwen2_moe", nullptr, 1e-6, read_qwen2_moe,
     single_or_stacked(nullptr, "mlp.shared_expert", "mlp.shared_expert_gate")},
    {"qwen3_moe", nullptr, 1e-6, read_qwen3_moe, single_or_stacked(nullptr, nullptr, nullptr)},
    {"mixtral",
     nullptr,
     1e-5,
     read_mixtral,
     {LayerNames{"block_sparse_moe.gate", nullptr, &kMixtral}, LayerNames{"mlp.gate", nullptr, &kStacked}}},
    {"gpt_oss", nullptr, 1e-5, read_gpt_oss, {LayerNames{"mlp.router", nullptr, &kGptOss}}},
    {"granitemoe",
     nullptr,
     1e-6,
     read_granitemoe,
     {LayerNames{"block_sparse_moe.router.layer", nullptr, &kGranite},
      LayerNames{"block_sparse_moe.router", nullptr, &kGraniteStacked}}},
};

const ArchitectureRow& read_architecture(ConfigKeys& keys) {
  const std::string type = keys.text({"model_type"}, "");
  for (const ArchitectureRow& row : kArchitectures)
    if (type == row.name || (row.other_name && type == row.other_name)) return row;
  keys.fail("model_type", (type.empty() ? "is missing" : "is '" + printable(type) + "', which is not known") +
                              "; allowed: " + architecture_names());
}

}  // namespace

std::string architecture_names() {
  return joined(kArchitectures, ", ", &ArchitectureRow::name);
}

CheckpointConfig parse_checkpoint_config(const std::string& text, const std::string& path) {
  const Json json = parse_json(text, path);
  if (!json.is_object()) refuse(path, "is no JSON object");
  ConfigKeys keys(json, path);
  CheckpointConfig c;
  c.path = path;
  const ArchitectureRow& row = read_architecture(keys);
  c.architecture = row.name;
  c.layouts = &row.layouts;
  c.vocab = keys.count({"vocab_size"}, 1, kMaxWidth);
  c.dim = keys.count({"hidden_size"}, 1, kMaxWidth);
  c.heads = keys.count({"num_attention_heads"}, 1, kMaxHeads);
  c.layers.resize(keys.count({"num_hidden_layers"}, 1, kMaxCheckpointLayers));
  c.norm_eps = keys.number({"rms_norm_eps"}, 0, 1, row.norm_eps);
  keys.choice({"hidden_act"}, {"silu", "swish"}, "silu");
  c.tied_embedding = keys.flag("tie_word_embeddings").value_or(false);
  keys.allow_null({"num_key_value_heads", "head_dim", "clip_qkv"});
  row.read(keys, c);
  const std::vector<bool> sparse = read_kinds(keys, c, "mlp_layer_types", {"dense", "sparse"});
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    if (c.layers[i].moe.value_or(sparse[i]) != sparse[i])
      keys.fail("mlp_layer_types", fmt::format("has another kind for layer {} than the other keys", i));
    c.layers[i].moe = sparse[i];
  }
  // In architectures without dense layers all layers have experts.
  if (c.dense_width == 0)
    for (CheckpointLayer& layer : c.layers) layer.moe = true;
  if (c.dense_width == 0 && c.experts == 0) keys.fail("num_local_experts", "is 0");
  if (const Json* stated = keys.find({"quantization_config", "compression_config"}))
    read_quantization(*stated, path, "quantization_config.", c.quantization);
  for (std::string_view names = kOtherKeys; !names.empty();) keys.ignore_key(take_until(names, ' '));
  keys.require_all_read();
  return c;
}

CheckpointConfig read_checkpoint_config(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  require_inside(folder.empty() ? "." : folder, path);
  CheckpointConfig config = parse_checkpoint_config(read_file(path, kLargestConfig, "config.json"), path);
  const std::filesystem::path quantization_path = folder / "hf_quant_config.json";
  if (!std::filesystem::exists(quantization_path)) return config;
  require_inside(folder.empty() ? "." : folder, quantization_path);
  const Json json = parse_json(read_file(quantization_path.string(), kLargestConfig, "hf_quant_config.json"),
                               quantization_path.string());
  const auto stated = json.find("quantization");
  if (!json.is_object() || stated == json.end()) refuse(quantization_path.string(), "has no object 'quantization'");
  read_quantization(*stated, quantization_path.string(), "quantization.", config.quantization);
  return config;
}

}  // namespace moescope
