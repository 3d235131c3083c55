// Keys of config.json: every spelling is understood, or an error names the key.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/checkpoints/checkpoint_config.h"
#include "core/checkpoints/rope_angles.h"
#include "tests/support/problem_of.h"

namespace moescope {
namespace {

using Json = nlohmann::json;

Json mixtral() {
  return {{"model_type", "mixtral"}, {"vocab_size", 320},        {"hidden_size", 64},
          {"num_hidden_layers", 3},  {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"intermediate_size", 96}, {"num_local_experts", 8},   {"num_experts_per_tok", 2}};
}
Json deepseek_v3() {
  return {{"model_type", "deepseek_v3"}, {"vocab_size", 320},        {"hidden_size", 64},
          {"num_hidden_layers", 4},      {"num_attention_heads", 4}, {"intermediate_size", 160},
          {"moe_intermediate_size", 48}, {"n_routed_experts", 16},   {"num_experts_per_tok", 4},
          {"n_shared_experts", 1},       {"kv_lora_rank", 24},       {"qk_nope_head_dim", 16},
          {"qk_rope_head_dim", 8},       {"v_head_dim", 16},         {"first_k_dense_replace", 1}};
}
Json qwen() {
  return {{"model_type", "qwen3_moe"},  {"vocab_size", 320},        {"hidden_size", 64},
          {"num_hidden_layers", 4},     {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"intermediate_size", 160},   {"num_experts", 16},        {"num_experts_per_tok", 4},
          {"moe_intermediate_size", 48}};
}

CheckpointConfig parsed(const Json& json) {
  return parse_checkpoint_config(json.dump(), "config.json");
}
std::string problem(Json json, const std::string& key, const Json& value) {
  json[key] = value;
  return problem_of([&] { parsed(json); });
}
std::string layers(const CheckpointConfig& config) {
  std::string text;
  for (const CheckpointLayer& layer : config.layers) {
    const char kind = layer.moe.value_or(false) ? 'E' : 'd';
    text += layer.moe ? kind : '?';
  }
  return text;
}

TEST(CheckpointConfig, WhatIsNotKnownNamesItsKey) {
  EXPECT_EQ(problem(mixtral(), "model_type", "llama").substr(0, 61),
            "config.json: 'model_type' is 'llama', which is not known; all");
  EXPECT_EQ(problem(mixtral(), "hidden_act", "gelu"),
            "config.json: 'hidden_act' is 'gelu', which is not known; allowed: silu, swish");
  EXPECT_EQ(problem(mixtral(), "attn_logit_softcapping", 30.0),
            "config.json: 'attn_logit_softcapping' is 30.0, and the meaning of this key is not known");
  EXPECT_EQ(problem(mixtral(), "rope_scaling", {{"type", "longrope"}}),
            "config.json: 'rope_parameters.rope_type' is 'longrope', which is not known; allowed: default, linear, "
            "yarn, llama3");
  EXPECT_EQ(problem(mixtral(), "rope_parameters", {{"rope_type", "default"}, {"mrope_section", {1, 2}}}),
            "config.json: 'rope_parameters.mrope_section' is [1,2], and the meaning of this key is not known");
  EXPECT_EQ(problem(mixtral(), "quantization_config", {{"quant_method", "gptq"}}),
            "config.json: 'quantization_config.quant_method' is 'gptq', which is not known; allowed: fp8, mxfp4, "
            "compressed-tensors, modelopt, quark");
  EXPECT_EQ(problem(deepseek_v3(), "scoring_func", "softmax"),
            "config.json: 'scoring_func' is 'softmax', which is not known; allowed: sigmoid");
}

TEST(CheckpointConfig, WhatAsksForNothingIsPassedOver) {
  Json json = mixtral();
  json["new_thing"] = nullptr;
  json["other_thing"] = false;
  json["third_thing"] = Json::array();
  json["_name_or_path"] = "somewhere";
  json["bos_token_id"] = 1;
  EXPECT_EQ(parsed(json).experts, 8);
}

TEST(CheckpointConfig, SizesThatCannotBeAreRefused) {
  EXPECT_EQ(problem(mixtral(), "hidden_size", 1e18), "config.json: 'hidden_size' is 1e+18; allowed: 1 to 16777216");
  EXPECT_EQ(problem(mixtral(), "num_hidden_layers", -1), "config.json: 'num_hidden_layers' is -1; allowed: 1 to 10000");
  EXPECT_EQ(problem(mixtral(), "num_experts_per_tok", 9), "config.json: 'num_experts_per_tok' is 9; allowed: 1 to 8");
  EXPECT_EQ(problem(mixtral(), "num_key_value_heads", 3),
            "config.json: 'num_key_value_heads' does not divide num_attention_heads, 4");
  EXPECT_EQ(problem(mixtral(), "vocab_size", "many"), "config.json: 'vocab_size' is \"many\"; allowed: 1 to 16777216");
  EXPECT_EQ(problem(mixtral(), "vocab_size", nullptr), "config.json: 'vocab_size' is missing");
  Json groups = deepseek_v3();
  groups["topk_group"] = 1;
  EXPECT_EQ(problem(groups, "n_group", 8),
            "config.json: 'num_experts_per_tok' is more than the experts of topk_group groups");
}

TEST(CheckpointConfig, AllSpellingsOfRopeMeanTheSame) {
  Json old = mixtral(), named = mixtral(), by_kind = mixtral();
  const Json yarn{{"factor", 4.0}, {"original_max_position_embeddings", 64}, {"beta_fast", 16}};
  old["rope_theta"] = 5000.0;
  old["rope_scaling"] = yarn;
  old["rope_scaling"]["type"] = "yarn";
  named["rope_parameters"] = yarn;
  named["rope_parameters"].update({{"rope_type", "yarn"}, {"rope_theta", 5000.0}});
  by_kind["rope_parameters"] = {{"full_attention", named["rope_parameters"]},
                                {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10.0}}}};
  const std::vector<float> frequencies = rope_frequencies(parsed(old).rope[0], 32);
  EXPECT_EQ(rope_frequencies(parsed(named).rope[0], 32), frequencies);
  EXPECT_EQ(rope_frequencies(parsed(named).rope[1], 32), frequencies);
  EXPECT_EQ(rope_frequencies(parsed(by_kind).rope[0], 32), frequencies);
  EXPECT_EQ(parsed(by_kind).rope[1].theta, 10.0);
  EXPECT_EQ(frequencies.front(), 1.0f);                                        // many turns: kept
  EXPECT_FLOAT_EQ(frequencies.back(), 0.25f / std::pow(5000.0f, 30.0f / 32));  // less than one turn: a quarter
}

TEST(CheckpointConfig, Llama3SlowsWhatTurnsLessThanOnce) {
  RopeSettings rope{.kind = RopeSettings::Kind::llama3, .factor = 8, .original_positions = 8192};
  rope.low_freq_factor = 1;
  rope.high_freq_factor = 4;
  RopeSettings plain;
  const std::vector<float> slowed = rope_frequencies(rope, 128), before = rope_frequencies(plain, 128);
  EXPECT_EQ(slowed.front(), before.front());
  EXPECT_FLOAT_EQ(slowed.back(), before.back() / 8);
  for (std::size_t i = 0; i < slowed.size(); ++i) {
    EXPECT_LE(slowed[i], before[i]);
    EXPECT_GE(slowed[i], before[i] / 8 * 0.999f);
  }
}

TEST(CheckpointConfig, YarnsTemperature) {
  RopeSettings yarn{.kind = RopeSettings::Kind::yarn, .factor = 40, .original_positions = 4096};
  EXPECT_DOUBLE_EQ(rope_attention_factor(yarn), 0.1 * std::log(40.0) + 1);
  EXPECT_EQ(rope_score_factor(yarn), 1);
  yarn.mscale = 1.0;
  yarn.mscale_all_dim = 0.5;
  EXPECT_DOUBLE_EQ(rope_attention_factor(yarn), (0.1 * std::log(40.0) + 1) / (0.05 * std::log(40.0) + 1));
  EXPECT_DOUBLE_EQ(rope_score_factor(yarn), std::pow(0.05 * std::log(40.0) + 1, 2));
  yarn.attention_factor = 1.5;
  EXPECT_EQ(rope_attention_factor(yarn), 1.5);
}

// The values of transformers 5.17.
TEST(CheckpointConfig, AbsentKeysHaveTheDefaultsOfTransformers) {
  Json json = deepseek_v3();
  json.erase("n_shared_experts");
  const CheckpointConfig v3 = parsed(json);
  EXPECT_EQ(v3.shared_width, 48);
  EXPECT_EQ(v3.router.config.route_scale, 2.5);
  EXPECT_EQ(v3.router.config.n_groups, 8);
  EXPECT_EQ(v3.router.config.n_limited_groups, 4);
  EXPECT_TRUE(v3.router.config.route_norm);
  EXPECT_EQ(v3.latent->q_rank, 1536);
  json["q_lora_rank"] = nullptr;
  EXPECT_EQ(parsed(json).latent->q_rank, 0);
  json.erase("first_k_dense_replace");
  EXPECT_EQ(layers(parsed(json)), "dddE");
  json["model_type"] = "deepseek_v2";
  const CheckpointConfig v2 = parsed(json);
  EXPECT_EQ(v2.shared_width, 96);
  EXPECT_EQ(v2.router.config.route_scale, 1);
  EXPECT_EQ(v2.router.config.n_groups, 0);
  EXPECT_EQ(layers(v2), "EEEE");
  json = mixtral();
  json["num_attention_heads"] = 8;
  json.erase("num_key_value_heads");
  EXPECT_EQ(parsed(json).grouped.kv_heads, 8);
  json["model_type"] = "gpt_oss";
  const CheckpointConfig gpt_oss = parsed(json);
  EXPECT_EQ(gpt_oss.grouped.head_dim, 64);
  EXPECT_EQ(gpt_oss.layers[0].window, 128);
  EXPECT_TRUE(gpt_oss.attention_bias);
  json["model_type"] = "qwen2_moe";
  json.update({{"num_key_value_heads", 8}, {"moe_intermediate_size", 48}, {"shared_expert_intermediate_size", 96}});
  EXPECT_TRUE(parsed(json).qkv_bias);
}

TEST(CheckpointConfig, KeysThatContradictEachOtherAreRefused) {
  EXPECT_EQ(problem(mixtral(), "num_experts", 4),
            "config.json: 'num_experts' is 4, but 'num_local_experts', which has the same meaning, is 8");
  Json rope = mixtral();
  rope["rope_theta"] = 500.0;
  EXPECT_EQ(problem(rope, "rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10.0}}),
            "config.json: 'rope_theta' differs from 'rope_parameters.rope_theta'");
  rope["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
  EXPECT_NE(problem(rope, "rope_parameters", {{"rope_type", "default"}}).find("same meaning"), std::string::npos);
  EXPECT_EQ(problem(deepseek_v3(), "num_key_value_heads", 2),
            "config.json: 'num_key_value_heads' differs from num_attention_heads; latent attention has as many");
  EXPECT_EQ(problem(deepseek_v3(), "mlp_layer_types", {"sparse", "sparse", "sparse", "sparse"}),
            "config.json: 'mlp_layer_types' has another kind for layer 0 than the other keys");
  EXPECT_EQ(problem(deepseek_v3(), "layer_types", std::vector<std::string>(4, "sliding_attention")).substr(0, 60),
            "config.json: 'layer_types' has another kind of attention for");
  EXPECT_EQ(problem(deepseek_v3(), "n_group", nullptr),
            "config.json: 'n_group' is null; allowed: a number, or no such key");
  EXPECT_EQ(problem(deepseek_v3(), "topk_group", 0), "config.json: 'topk_group' is 0; allowed: 1 to 65536");
}

TEST(CheckpointConfig, KeysThatTransformersDoesNotReadAreNoted) {
  Json json = mixtral();
  json.update({{"model_type", "gpt_oss"}, {"swiglu_limit", 7.0}});
  EXPECT_TRUE(parsed(json).notes.empty());
  json["swiglu_limit"] = 0.5;
  EXPECT_EQ(parsed(json).notes.size(), 1u);
  json = deepseek_v3();
  json["mlp_bias"] = true;
  EXPECT_FALSE(parsed(json).mlp_bias);
  EXPECT_EQ(parsed(json).notes.size(), 1u);
  json.erase("mlp_bias");
  json["rope_interleave"] = false;
  EXPECT_FALSE(parsed(json).latent->interleaved);
  EXPECT_TRUE(parsed(json).notes.empty());
  json["model_type"] = "deepseek_v2";
  EXPECT_TRUE(parsed(json).latent->interleaved);
  EXPECT_EQ(parsed(json).notes.size(), 1u);
}

TEST(CheckpointConfig, QuantizationThatChangesTheResultIsObeyedOrRefusedByName) {
  const auto refused = [](const Json& quantization) {
    const std::string text = problem(mixtral(), "quantization_config", quantization);
    return text.empty() ? text : text.substr(text.find('.', 13) + 1);
  };
  const auto group = [](Json weights) {
    return Json{{"quant_method", "compressed-tensors"},
                {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", std::move(weights)}}}}}};
  };
  const Json fp8{{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}, {"symmetric", true}};
  EXPECT_EQ(refused(group(fp8)), "");
  const auto changed = [&](const char* key, const Json& value) {
    Json weights = fp8;
    weights[key] = value;
    return refused(group(weights));
  };
  const std::string in_group = "config_groups.group_0.weights.";
  EXPECT_EQ(changed("num_bits", 4), "");  // FP4 by rows, which no tensor of FP8 fits
  EXPECT_EQ(changed("num_bits", 3), in_group + "num_bits' is 3 with type 'float'; allowed: 8, and 4 with 'float'");
  EXPECT_EQ(changed("symmetric", false), in_group + "symmetric' is false: zero points are not supported");
  EXPECT_EQ(changed("actorder", "group"), in_group + "actorder' reorders the columns, which is not supported");
  EXPECT_EQ(changed("strategy", "block"), in_group + "block_structure' is missing");
  EXPECT_EQ(changed("strategy", "group"), in_group + "group_size' is missing");
  EXPECT_EQ(changed("new_key", 5), in_group + "new_key' is 5, and the meaning of this key is not known");
  Json whole = group(fp8);
  whole["transform_config"] = {{"config_groups", {{"R1", {{"type", "hadamard"}}}}}};
  EXPECT_EQ(refused(whole), "transform_config' rotates weights or inputs, which is not supported");
  whole = group(fp8);
  whole["format"] = "pack-quantized";
  EXPECT_EQ(refused(whole).substr(0, 52), "format' is 'pack-quantized', which is not known; all");
  const Json modelopt{{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"group_size", 16}};
  EXPECT_EQ(refused(modelopt), "");
  for (const char* key : {"pre_quant_scale", "has_zero_point"}) {
    Json json = modelopt;
    json[key] = true;
    EXPECT_TRUE(refused(json).starts_with(key)) << refused(json);
  }
  Json awq = modelopt;
  awq["quant_algo"] = "W4A8_AWQ";
  EXPECT_TRUE(refused(awq).starts_with("quant_algo' is 'W4A8_AWQ', which is not supported; allowed: FP8"));
  for (const Json& sizes : {Json{0, 128}, Json{128}, Json{"a", 3}, Json(128), Json{-1, 2}})
    EXPECT_TRUE(refused({{"quant_method", "fp8"}, {"weight_block_size", sizes}}).starts_with("weight_block_size'"));
  EXPECT_EQ(refused({{"quant_method", "fp8"}, {"weight_block_size", {64, 64}}, {"activation_scheme", "dynamic"}}), "");
}

TEST(CheckpointConfig, WhichLayersHaveExperts) {
  EXPECT_EQ(layers(parsed(mixtral())), "EEE");
  EXPECT_EQ(layers(parsed(deepseek_v3())), "dEEE");
  Json json = deepseek_v3();
  json["moe_layer_freq"] = 2;  // not a key of transformers, so that the tensors decide
  EXPECT_EQ(layers(parsed(json)), "d???");
  json["mlp_layer_types"] = {"dense", "dense", "sparse", "sparse"};
  EXPECT_EQ(layers(parsed(json)), "ddEE");
  json = qwen();
  json["decoder_sparse_step"] = 2;
  EXPECT_EQ(layers(parsed(json)), "dEdE");
  json["mlp_only_layers"] = {3, 7};
  EXPECT_EQ(layers(parsed(json)), "dEdd");
}

TEST(CheckpointConfig, WhichLayersSeeAWindow) {
  const auto windows = [](const CheckpointConfig& config) {
    std::vector<int> all;
    for (const CheckpointLayer& layer : config.layers) all.push_back(layer.window);
    return all;
  };
  Json json = mixtral();
  json["sliding_window"] = 16;
  EXPECT_EQ(windows(parsed(json)), std::vector<int>({16, 16, 16}));
  json = qwen();
  json["sliding_window"] = 16;
  EXPECT_EQ(windows(parsed(json)), std::vector<int>({0, 0, 0, 0}));
  json["use_sliding_window"] = true;
  EXPECT_EQ(windows(parsed(json)), std::vector<int>({16, 16, 16, 16}));
  Json qwen2 = json;
  qwen2.update({{"model_type", "qwen2_moe"}, {"shared_expert_intermediate_size", 96}, {"max_window_layers", 2}});
  EXPECT_EQ(windows(parsed(qwen2)), std::vector<int>({16, 0, 0, 0}));  // every second layer below max_window_layers
  qwen2["layer_types"] = {"full_attention", "sliding_attention", "full_attention", "full_attention"};
  EXPECT_EQ(windows(parsed(qwen2)), std::vector<int>({0, 16, 0, 0}));
  EXPECT_EQ(problem(json, "layer_types", qwen2["layer_types"]),  // transformers computes qwen3_moe without this key
            "config.json: 'layer_types' has another kind of attention for layer 0 than transformers computes by the "
            "other keys, which is sliding_attention");
  EXPECT_EQ(problem(json, "layer_types", Json::array({"linear_attention", "", "", ""})),
            "config.json: 'layer_types' has \"linear_attention\"; allowed: full_attention, sliding_attention");
}

}  // namespace
}  // namespace moescope
