// What a config.json of Hugging Face's transformers says of a mixture-of-experts model: its architecture, shapes,
// attention, router and multipliers, in one form for all architectures that are read here.
//
// Meanings are those of transformers 5 (https://github.com/huggingface/transformers, configuration_*.py). Keys that
// change what the model computes and are not known here, and values of known keys that are not, are errors that name
// the key; keys of training and generation are passed over.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/run_config.h"

namespace moescope {

enum class Architecture : std::uint8_t {
  deepseek_v2,
  deepseek_v3,  // Moonlight and Kimi K2 as well
  olmoe,
  qwen2_moe,
  qwen3_moe,
  mixtral,
  gpt_oss,
  granitemoe
};
inline constexpr int kNumArchitectures = 8;
const char* architecture_name(Architecture architecture);  // "deepseek_v3", as model_type has it
std::string architecture_names();                          // "deepseek_v2, deepseek_v3, ..."

// Rotary position embedding: how fast each pair of dimensions turns (rope_angles.h).
struct RopeSettings {
  enum class Kind : std::uint8_t { plain, linear, yarn, llama3 } kind = Kind::plain;
  double theta = 10000;
  double factor = 1;              // of the context, of all kinds but plain
  double original_positions = 0;  // before it was lengthened; yarn and llama3
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;  // yarn's bounds are whole pairs
  std::optional<double> attention_factor = {}, mscale = {}, mscale_all_dim = {};
  double low_freq_factor = 1, high_freq_factor = 1;
};

// Multi-head latent attention (core/model/layers/attention.h).
struct LatentShape {
  int q_rank = 0;  // 0: plain queries
  int kv_rank = 0, nope = 0, rope = 0, value = 0;
  bool interleaved = true;  // pairs of the rotation lie side by side; else half a head apart
};

// Attention whose queries share keys and values in groups.
struct GroupedShape {
  enum class QueryKeyNorm : std::uint8_t { none, head, whole } norm = QueryKeyNorm::none;  // RMS norm of q and k
  int kv_heads = 0, head_dim = 0;
  double clip = 0;     // |q|, |k| and |v| at most this; 0: no limit
  bool sinks = false;  // a learnt score per head that takes a share of each softmax and gives nothing
};

struct CheckpointLayer {
  std::optional<bool> moe;  // nothing: what its tensors say
  int window = 0;           // keys that a query sees, its own token included; 0: all before it
  bool sliding = false;     // of which kind its RoPE is, where kinds differ
};

// How one token's experts are chosen and weighted, beside what RouterConfig says: top_k, score_func, groups, route_norm
// and route_scale.
struct CheckpointRouter {
  RouterConfig config;
  bool group_by_best = false;    // a group counts by its best score, not by the sum of its two best
  bool choose_by_logit = false;  // the softmax follows the choice
  bool logit_bias = false;       // a learnt bias on the logits
  bool choice_bias = false;      // e_score_correction_bias, for the choice only
};

struct CheckpointConfig {
  Architecture architecture = Architecture::deepseek_v3;
  std::string path;  // of the config.json
  int vocab = 0, dim = 0, heads = 0;
  double norm_eps = 1e-6;
  std::vector<CheckpointLayer> layers;
  std::optional<LatentShape> latent;  // else `grouped`
  GroupedShape grouped;
  std::array<RopeSettings, 2> rope;                        // of full and of sliding attention
  std::optional<bool> qkv_bias, attention_bias, mlp_bias;  // nothing: what its tensors say
  double attention_scale = 0;  // of the scores before RoPE's share; 0: 1 / sqrt(width of a query)
  int dense_width = 0, expert_width = 0;
  int experts = 0;
  int shared_width = 0;      // 0: no shared experts
  bool shared_gate = false;  // a token's output of them times sigmoid(h w_g)
  CheckpointRouter router;
  bool clamped_unit = false;  // of gpt-oss, in place of SwiGLU: gated_unit.h
  double unit_limit = 7;      // its clamp
  bool tied_embedding = false;
  double embedding_multiplier = 1, residual_multiplier = 1, logits_divisor = 1;

  int query_dim() const { return latent ? latent->nope + latent->rope : grouped.head_dim; }  // of a head
  int value_dim() const { return latent ? latent->value : grouped.head_dim; }
  int kv_heads() const { return latent ? heads : grouped.kv_heads; }
  const RopeSettings& rope_of(const CheckpointLayer& layer) const { return rope[layer.sliding ? 1 : 0]; }
};

// Throws std::runtime_error "PATH: 'KEY' ...", with what is allowed.
CheckpointConfig read_checkpoint_config(const std::string& path);
CheckpointConfig parse_checkpoint_config(const std::string& text, const std::string& path);

}  // namespace moescope
