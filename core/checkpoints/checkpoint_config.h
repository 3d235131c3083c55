// The description of a mixture-of-experts model in a config.json of Hugging Face's transformers: architecture, shapes,
// attention, router and multipliers, in one form for all supported architectures.
//
// Keys have the meanings and defaults of transformers 5.17 (https://github.com/huggingface/transformers,
// configuration_*.py). Errors name the key: unknown keys and values that may change the model's results, absent keys
// without a default, and keys that contradict each other. Keys of training and generation are ignored.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/checkpoints/quantization_config.h"
#include "core/config/run_config.h"
#include "core/model/layers/attention_kind.h"
#include "core/model/layers/latent_attention.h"

namespace moescope {

// The names of a layer's tensors as transformers writes them. They follow "model.layers.N.". "{}" stands for the number
// of the expert. ".weight" and ".bias" are appended, except to names of stacked experts and of the choice's bias.
// How the routed experts of a layer are stored.
struct ExpertNames {
  enum class Layout : std::uint8_t {
    single,         // gate, up and down of every expert, [out, in] each
    stacked,        // [E, gate then up, in] and [E, out, in]
    stacked_across  // [E, in, gate and up alternating] and [E, in, out], with biases; packed codes are [E, out, in]
  } layout;
  const char *gate, *up;  // `up` is nullptr if both are one tensor
  const char* down;
};

struct LayerNames {
  const char* router = nullptr;
  const char* router_bias = nullptr;  // bias of the choice; nullptr if there is none
  const ExpertNames* experts = nullptr;
  const char *shared = nullptr, *shared_gate = nullptr;  // prefix of ".gate_proj"; nullptr if there is none
};

// The names of published files, and those of transformers 5's own modules (save_original_format=False). The second has
// no router if they are the same.
using LayerLayouts = std::array<LayerNames, 2>;

std::string architecture_names();  // "deepseek_v2, deepseek_v3, ..."

// Settings of the rotary position embedding, which give the speed of each pair of dimensions (rope_angles.h).
struct RopeSettings {
  enum class Kind : std::uint8_t { plain, linear, yarn, llama3 } kind = Kind::plain;
  double theta = 10000;
  double factor = 1;              // factor of the context, for all kinds except plain
  double original_positions = 0;  // length of the context before it was extended; for yarn and llama3
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;  // the bounds of yarn's ramp are rounded to whole pairs
  std::optional<double> attention_factor = {}, mscale = {}, mscale_all_dim = {};
  double low_freq_factor = 1, high_freq_factor = 1;
};

// Clamp of the unit of gpt-oss in transformers, regardless of config.json.
inline constexpr double kUnitLimit = 7;

// Epsilon of the norms inside latent attention in transformers, regardless of config.json.
inline constexpr double kLatentNormEps = 1e-6;

struct CheckpointLayer {
  std::optional<bool> moe;  // nullopt: decided by the tensors of the layer
  int window = 0;           // number of keys that a query sees, including its own token; 0: all up to its own token
  bool sliding = false;     // sliding attention, which may have a RoPE of its own
};

// How the experts of a token are chosen and weighted. `config` gives top_k, score_func, groups, route_norm and
// route_scale.
struct CheckpointRouter {
  RouterConfig config;
  bool group_by_best = false;    // groups are ranked by their best score, not by the sum of their two best
  bool choose_by_logit = false;  // the softmax is taken after the choice
  bool logit_bias = false;       // a learned bias of the logits
  bool choice_bias = false;      // e_score_correction_bias, for the choice only
};

struct CheckpointConfig {
  const char* architecture = "";  // value of model_type; "deepseek_v3" also for Moonlight and Kimi K2
  const LayerLayouts* layouts = nullptr;
  std::string path;  // path of config.json
  int vocab = 0, dim = 0, heads = 0;
  double norm_eps = 1e-6;
  std::vector<CheckpointLayer> layers;
  std::optional<LatentShape> latent;  // nullopt: `grouped` applies
  GroupedShape grouped;
  std::array<RopeSettings, 2> rope;  // for full and for sliding attention
  bool qkv_bias = false, attention_bias = false, mlp_bias = false;
  double attention_scale = 0;  // factor of the scores without RoPE's factor; 0: 1 / sqrt(width of a query)
  int dense_width = 0, expert_width = 0;
  int experts = 0;
  int shared_width = 0;      // 0: no shared experts
  bool shared_gate = false;  // the shared experts' output is multiplied by sigmoid(h w_g)
  CheckpointRouter router;
  bool clamped_unit = false;  // the unit of gpt-oss in place of SwiGLU (core/model/layers/swiglu.h)
  bool tied_embedding = false;
  double embedding_multiplier = 1, residual_multiplier = 1, logits_divisor = 1;
  StatedQuantization quantization;
  std::vector<std::string> notes;  // keys that transformers ignores, as sentences for the user

  int query_dim() const { return latent ? latent->nope + latent->rope : grouped.head_dim; }  // width for one head
  int value_dim() const { return latent ? latent->value : grouped.head_dim; }
  int kv_heads() const { return latent ? heads : grouped.kv_heads; }
  const RopeSettings& rope_of(const CheckpointLayer& layer) const { return rope[layer.sliding ? 1 : 0]; }
};

// Throws std::runtime_error "PATH: 'KEY' ..." with the allowed values. read_checkpoint_config() also reads
// hf_quant_config.json beside config.json, where old versions of ModelOpt describe the quantization.
CheckpointConfig read_checkpoint_config(const std::string& path);
CheckpointConfig parse_checkpoint_config(const std::string& text, const std::string& path);

}  // namespace moescope
