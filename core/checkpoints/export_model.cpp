#include "core/checkpoints/export_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "core/checkpoints/checkpoint_config.h"
#include "core/config/config_field.h"
#include "core/config/config_toml.h"
#include "core/files/input_file.h"
#include "core/files/tensors/safetensors.h"
#include "core/files/text/json_text.h"
#include "core/files/unreadable.h"
#include "core/files/whole_file.h"
#include "core/model/tokenizer/characters.h"
#include "core/model/tokenizer/tokenizer.h"

namespace moescope {
namespace {

constexpr std::uint64_t kLargestTokenizer = std::uint64_t{1} << 28;
constexpr const char* kExportedFiles[] = {"config.json", "model.safetensors", "tokenizer.json",
                                          "tokenizer_config.json"};

using OrderedJson = nlohmann::ordered_json;

// A tensor to write: the elements of `from`, a tensor of the run, from `first` on. The first `scaled` elements are
// multiplied by `factor`. All elements are zero if `from` is nullptr.
struct Exported {
  TensorSpec spec;
  const TensorView* from = nullptr;
  std::size_t first = 0, scaled = 0;
  float factor = 1;
};

class ModelExport {
 public:
  ModelExport(const SafetensorsFile& file, const RunConfig& config) : file_(file), c_(config), m_(config.model) {}

  std::vector<Exported> tensors() {
    add("model.embed_tokens.weight", "tok_embeddings.weight");
    for (int layer = 0; layer < m_.n_layers; ++layer) add_layer(layer);
    add("model.norm.weight", "norm.weight");
    add("lm_head.weight", "output.weight");
    return std::move(tensors_);
  }

 private:
  void add(const std::string& name, const std::string& from) {
    const TensorView& tensor = file_.at(from);
    tensors_.push_back({{name, DType::f32, tensor.shape}, &tensor});
  }
  // Scales the first `rows` rows, whose outputs go to a norm inside latent attention.
  void add_scaled(const std::string& name, const std::string& from, int rows) {
    add(name, from);
    tensors_.back().scaled = size(rows) * size(m_.dim);
    tensors_.back().factor = static_cast<float>(std::sqrt(kLatentNormEps / m_.norm_eps));
  }

  void add_layer(int layer) {
    const std::string to = fmt::format("model.layers.{}.", layer);
    const std::string from = fmt::format("layers.{}.", layer);
    add(to + "input_layernorm.weight", from + "attention_norm.weight");
    add_attention(to + "self_attn.", from + "attention.");
    add(to + "post_attention_layernorm.weight", from + "ffn_norm.weight");
    if (layer < m_.n_dense_layers)
      add_feed_forward(to + "mlp.", from + "feed_forward.");
    else
      add_experts(to + "mlp.", from + "moe.");
  }

  void add_attention(const std::string& to, const std::string& from) {
    if (m_.q_lora_rank > 0) {
      add_scaled(to + "q_a_proj.weight", from + "wq_a.weight", m_.q_lora_rank);
      add(to + "q_a_layernorm.weight", from + "q_norm.weight");
      add(to + "q_b_proj.weight", from + "wq_b.weight");
    } else {
      add(to + "q_proj.weight", from + "wq.weight");
    }
    add_scaled(to + "kv_a_proj_with_mqa.weight", from + "wkv_a.weight", m_.kv_lora_rank);
    add(to + "kv_a_layernorm.weight", from + "kv_norm.weight");
    add(to + "kv_b_proj.weight", from + "wkv_b.weight");
    add(to + "o_proj.weight", from + "wo.weight");
  }

  void add_feed_forward(const std::string& to, const std::string& from) {
    add(to + "gate_proj.weight", from + "w1.weight");
    add(to + "up_proj.weight", from + "w3.weight");
    add(to + "down_proj.weight", from + "w2.weight");
  }

  void add_experts(const std::string& to, const std::string& from) {
    add(to + "gate.weight", from + "router.gate.weight");
    if (c_.router.score_func == ScoreFunc::sigmoid) add(to + "gate.e_score_correction_bias", from + "expert_bias");
    const struct {
      const char *to, *from;
    } parts[] = {
        {".gate_proj.weight", "experts.w1"}, {".up_proj.weight", "experts.w3"}, {".down_proj.weight", "experts.w2"}};
    for (std::size_t e = 0; e < size(m_.n_experts); ++e)
      for (const auto& part : parts) {
        const TensorView& all = file_.at(from + part.from);
        const std::vector<std::size_t> shape(all.shape.begin() + 1, all.shape.end());
        tensors_.push_back(
            {{fmt::format("{}experts.{}{}", to, e, part.to), DType::f32, shape}, &all, e * shape[0] * shape[1]});
      }
    if (m_.n_shared > 0) return add_feed_forward(to + "shared_experts.", from + "shared_experts.");
    const std::size_t dim = size(m_.dim), width = size(m_.moe_inter);
    for (const char* name : {"gate_proj", "up_proj"})
      tensors_.push_back({{to + "shared_experts." + name + ".weight", DType::f32, {width, dim}}});
    tensors_.push_back({{to + "shared_experts.down_proj.weight", DType::f32, {dim, width}}});
  }

  const SafetensorsFile& file_;
  const RunConfig& c_;
  const ModelConfig& m_;
  std::vector<Exported> tensors_;
};

std::vector<float> values_of(const Exported& tensor) {
  std::size_t count = 1;
  for (const std::size_t extent : tensor.spec.shape) count *= extent;
  if (!tensor.from) return std::vector<float>(count);
  std::vector<float> values = tensor.from->floats(tensor.first, count);
  for (float& value : std::span(values).first(std::min(tensor.scaled, count))) value *= tensor.factor;
  return values;
}

OrderedJson config_json(const RunConfig& config) {
  const ModelConfig& m = config.model;
  const RouterConfig& r = config.router;
  const bool v3 = r.score_func == ScoreFunc::sigmoid;
  const int groups = r.limits_groups() ? r.n_groups : 1;
  OrderedJson json{{"architectures", {v3 ? "DeepseekV3ForCausalLM" : "DeepseekV2ForCausalLM"}},
                   {"model_type", v3 ? "deepseek_v3" : "deepseek_v2"},
                   {"dtype", "float32"},
                   {"vocab_size", m.vocab},
                   {"hidden_size", m.dim},
                   {"num_hidden_layers", m.n_layers},
                   {"first_k_dense_replace", m.n_dense_layers},
                   {"intermediate_size", m.dense_inter},
                   {"num_attention_heads", m.n_heads},
                   {"num_key_value_heads", m.n_heads},
                   {"q_lora_rank", m.q_lora_rank > 0 ? OrderedJson(m.q_lora_rank) : OrderedJson()},
                   {"kv_lora_rank", m.kv_lora_rank},
                   {"qk_nope_head_dim", m.qk_nope_head_dim},
                   {"qk_rope_head_dim", m.qk_rope_head_dim},
                   {"v_head_dim", m.v_head_dim},
                   {"rope_theta", m.rope_theta},
                   {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", m.rope_theta}}},
                   {"max_position_embeddings", std::max(config.data.seq, 1)},
                   {"rms_norm_eps", m.norm_eps},
                   {"hidden_act", "silu"},
                   {"attention_bias", false},
                   {"n_routed_experts", m.n_experts},
                   {"num_experts_per_tok", r.top_k},
                   {"moe_intermediate_size", m.moe_inter},
                   {"n_shared_experts", std::max(1, m.n_shared)},
                   {"norm_topk_prob", r.route_norm},
                   {"routed_scaling_factor", r.route_scale},
                   {"n_group", groups},
                   {"topk_group", groups > 1 ? r.n_limited_groups : 1},
                   {"tie_word_embeddings", false},
                   {"bos_token_id", nullptr},
                   {"eos_token_id", nullptr},
                   {"pad_token_id", nullptr}};
  if (v3)
    json["rope_interleave"] = true;
  else
    json["topk_method"] = "greedy";
  return json;
}

// Returns a tokenizer whose tokens are bytes; the id of a token is the value of its byte.
OrderedJson tokenizer_json() {
  OrderedJson vocab = OrderedJson::object();
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    append_as_characters(token, std::string(1, static_cast<char>(byte)));
    vocab[token] = byte;
  }
  const OrderedJson byte_level{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", OrderedJson::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", OrderedJson::array()}}}};
}

// Returns the tokenizer.json of the run, or one whose tokens are bytes if the run has none. Other keys of the file than
// those of a tokenizer are left out.
std::string tokenizer_text(const RunConfig& config) {
  const std::string& path = config.data.tokenizer;
  if (path.empty()) return tokenizer_json().dump(2) + '\n';
  const std::string text = read_file(path, kLargestTokenizer, "tokenizer.json");
  if (const Tokenizer read(text, path); read.end() > config.model.vocab)
    refuse(path, fmt::format("has {} tokens, but the model has {}; it is not the tokenizer of the run", read.end(),
                             config.model.vocab));
  const nlohmann::json file = parse_json(text, path);
  OrderedJson exported;
  for (const char* key : {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                          "post_processor", "decoder", "model"})
    if (const auto part = file.find(key); part != file.end()) exported[key] = *part;
  return exported.dump() + '\n';
}

RunConfig config_of(const SafetensorsFile& file) {
  const auto text = file.metadata().find("config");
  if (text == file.metadata().end()) refuse(file.path(), "is not a checkpoint of MoEScope");
  const ParsedConfig parsed = parse_config(text->second, file.path() + " (config)");
  if (!parsed.problems.empty()) refuse(file.path(), parsed.problems.front().text());
  return parsed.config;
}

// True if is_sought() holds for the expert_bias of any expert.
bool has_bias(const SafetensorsFile& file, const RunConfig& config, bool (*is_sought)(float)) {
  for (int layer = config.model.n_dense_layers; layer < config.model.n_layers; ++layer)
    if (std::ranges::any_of(file.at(fmt::format("layers.{}.moe.expert_bias", layer)).floats(), is_sought)) return true;
  return false;
}

// Returns the keys of [precision] that round what the run computes, "experts, payload".
std::string rounding_keys(const RunConfig& config) {
  const RunConfig defaults;
  std::string keys;
  for (const ConfigField& field : config_fields())
    if (field.section == kSectionName<PrecisionConfig> && !field.derived && field.get(config) != field.get(defaults))
      keys += (keys.empty() ? "" : ", ") + field.key;
  return keys;
}

std::vector<std::string> notes_of(const SafetensorsFile& file, const RunConfig& config) {
  std::vector<std::string> notes;
  if (const std::string keys = rounding_keys(config); !keys.empty())
    notes.push_back("The run rounds numbers (" + keys +
                    "). The exported model does not: it computes in FP32 from the " +
                    "weights that the optimizer updates, so its logits differ by that rounding.");
  if (config.router.gate_noise > 0)
    notes.push_back("router.gate_noise: the exported model adds no noise, as the run does for its validation loss.");
  if (config.router.limits_groups() && has_bias(file, config, [](float bias) { return bias < 0; }))
    notes.push_back(
        "Some expert_bias are negative. Versions of transformers that mask the scores of other groups with " +
        std::string("0 in place of minus infinity (issue 45440) may then choose experts of other groups."));
  return notes;
}

bool is_exported_file(std::string_view name) {
  return std::ranges::find(kExportedFiles, name) != std::end(kExportedFiles);
}

void write_tensors(const std::string& path, const std::vector<Exported>& tensors) {
  std::vector<TensorSpec> specs;
  for (const Exported& tensor : tensors) specs.push_back(tensor.spec);
  SafetensorsStream out(path, specs, {{"format", "pt"}});
  for (const Exported& tensor : tensors) {
    const std::vector<float> values = values_of(tensor);
    out.append(std::as_bytes(std::span(values)));
  }
  out.finish();
}

}  // namespace

std::string why_not_in_transformers(const RunConfig& config) {
  const ModelConfig& m = config.model;
  const RouterConfig& r = config.router;
  if (m.latent_dim > 0) return "model.latent_dim: experts with latent rows";
  if (m.shared_expert_gate) return "model.shared_expert_gate: a gate of shared experts beside latent attention";
  if (r.score_func == ScoreFunc::sqrtsoftplus) return "router.score_func: scores by sqrtsoftplus";
  if (r.score_func == ScoreFunc::softmax && r.route_norm)
    return "router.route_norm: weights normalised over the top-k of a softmax, beside latent attention";
  if (r.score_func == ScoreFunc::softmax && r.limits_groups())
    return "router.n_groups: groups of a softmax by two scores";
  if (r.fault_group_mask == GroupMask::zero && r.limits_groups())
    return "router.fault_group_mask: scores of groups that were not chosen are 0";
  if (r.balance_rule == BalanceRule::quantile_microbatch) return "router.balance_rule: choice by logits and a bias";
  if (r.balance_rule == BalanceRule::quantile_sequence)
    return "router.balance_rule: scores minus moving quantiles of the sequence";
  if (r.n_hash_layers > 0) return "router.n_hash_layers: experts chosen by a table";
  if (r.force_balance) return "router.force_balance: experts chosen in turn";
  if (r.token_drop != TokenDrop::none) return "router.token_drop: experts that drop tokens";
  if (!r.killed_experts.empty()) return "router.killed_experts: experts that cannot be chosen";
  if (r.replay) return "router.replay: experts that run A chose";
  return {};
}

std::vector<std::string> exported_files() {
  return {std::begin(kExportedFiles), std::end(kExportedFiles)};
}

ExportedModel export_for_transformers(const std::string& checkpoint, const std::string& folder) {
  const SafetensorsFile file(checkpoint);
  const RunConfig config = config_of(file);
  if (const std::string reason = why_not_in_transformers(config); !reason.empty())
    refuse(checkpoint, "no class of transformers supports it: " + reason);
  if (config.router.score_func != ScoreFunc::sigmoid && has_bias(file, config, [](float bias) { return bias != 0; }))
    refuse(checkpoint, "no class of transformers supports it: expert_bias of a softmax router is not 0");
  const std::string tokenizer = tokenizer_text(config);
  const std::vector<Exported> tensors = ModelExport(file, config).tensors();
  const OrderedJson tokenizer_config{{"tokenizer_class", "PreTrainedTokenizerFast"},
                                     {"model_max_length", config.data.seq},
                                     {"clean_up_tokenization_spaces", false}};
  WholeFolder files(folder, is_exported_file);
  write_tensors(files.file("model.safetensors"), tensors);
  write_whole_file(files.file("config.json"), config_json(config).dump(2) + '\n');
  write_whole_file(files.file("tokenizer.json"), tokenizer);
  write_whole_file(files.file("tokenizer_config.json"), tokenizer_config.dump(2) + '\n');
  files.finish();
  return {to_int(tensors.size()), config.data.tokenizer, notes_of(file, config)};
}

}  // namespace moescope
