// A checkpoint of random weights in a temporary folder, as transformers writes Mixtral: two layers, four experts.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/files/tensors/safetensors.h"
#include "core/numerics/rng.h"

namespace moescope {

class SmallCheckpoint {
 public:
  static constexpr std::size_t kVocab = 40, kDim = 16, kHeads = 4, kKeyHeads = 2, kWidth = 24, kExperts = 4,
                               kLayers = 2;
  using Tensors = std::map<std::string, std::vector<std::size_t>>;  // names and shapes

  explicit SmallCheckpoint(const std::string& name)
      : folder_(std::filesystem::temp_directory_path() / ("moescope_" + name + '_' + std::to_string(::getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    write_config({});
    write_tensors();
  }
  ~SmallCheckpoint() { std::filesystem::remove_all(folder_); }
  SmallCheckpoint(const SmallCheckpoint&) = delete;
  SmallCheckpoint& operator=(const SmallCheckpoint&) = delete;

  std::string path() const { return folder_.string(); }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }

  static std::vector<std::int32_t> some_ids(std::size_t count) {
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i < count; ++i) ids.push_back(static_cast<std::int32_t>(i * i * 7 % kVocab));
    return ids;
  }

  // Writes config.json with the settings that fit the weights. `changes` overwrite or add settings.
  void write_config(const nlohmann::json& changes) const {
    nlohmann::json config{
        {"model_type", "mixtral"},      {"vocab_size", kVocab},          {"hidden_size", kDim},
        {"num_hidden_layers", kLayers}, {"num_attention_heads", kHeads}, {"num_key_value_heads", kKeyHeads},
        {"intermediate_size", kWidth},  {"num_local_experts", kExperts}, {"num_experts_per_tok", 2}};
    if (changes.is_object()) config.update(changes);
    std::ofstream(file("config.json")) << config.dump();
  }

  static Tensors shapes() {
    Tensors tensors{{"model.embed_tokens.weight", {kVocab, kDim}},
                    {"model.norm.weight", {kDim}},
                    {"lm_head.weight", {kVocab, kDim}}};
    const std::size_t keys = kDim / kHeads * kKeyHeads;
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
      const std::string at = "model.layers." + std::to_string(layer) + '.';
      tensors[at + "input_layernorm.weight"] = tensors[at + "post_attention_layernorm.weight"] = {kDim};
      tensors[at + "self_attn.q_proj.weight"] = tensors[at + "self_attn.o_proj.weight"] = {kDim, kDim};
      tensors[at + "self_attn.k_proj.weight"] = tensors[at + "self_attn.v_proj.weight"] = {keys, kDim};
      tensors[at + "block_sparse_moe.gate.weight"] = {kExperts, kDim};
      for (std::size_t e = 0; e < kExperts; ++e) {
        const std::string expert = at + "block_sparse_moe.experts." + std::to_string(e) + '.';
        tensors[expert + "w1.weight"] = tensors[expert + "w3.weight"] = {kWidth, kDim};
        tensors[expert + "w2.weight"] = {kDim, kWidth};
      }
    }
    return tensors;
  }

  // Writes random weights to model.safetensors. `change` may add, remove and reshape tensors before.
  void write_tensors(const std::function<void(Tensors&)>& change = {}) const {
    Tensors tensors = shapes();
    if (change) change(tensors);
    SafetensorsWriter writer;
    for (const auto& [name, shape] : tensors) {
      const RandomStream stream(1, name);
      std::size_t count = 1;
      for (const std::size_t extent : shape) count *= extent;
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(0.3 * stream.normal(i));
      writer.add(name, DType::f32, shape, std::as_bytes(std::span(values)));
    }
    writer.write(file("model.safetensors"));
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace moescope
