// What config.json says is compared with the tensors: a contradiction is an error or a note, never silent.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <span>

#include "core/checkpoints/checkpoint_folder.h"
#include "core/checkpoints/checkpoint_model.h"
#include "core/files/tensors/open_tensors.h"
#include "tests/support/kept_logits.h"
#include "tests/support/problem_of.h"
#include "tests/support/says.h"
#include "tests/support/small_checkpoint.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Stored {
  DType dtype;
  std::vector<std::size_t> shape;
  std::vector<std::byte> bytes;
};
using StoredTensors = std::map<std::string, Stored>;

Stored float_tensor(std::vector<std::size_t> shape, const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {DType::f32, std::move(shape), {bytes.begin(), bytes.end()}};
}
Stored code_tensor(DType dtype, std::vector<std::size_t> shape, std::size_t bytes) {
  return {dtype, std::move(shape), std::vector<std::byte>(bytes, std::byte{0x38})};
}

StoredTensors tensors_of(const SmallCheckpoint& folder) {
  StoredTensors all;
  const TensorFile file = open_tensors(folder.file("model.safetensors"));
  for (const TensorView& tensor : file.tensors()) {
    std::vector<std::byte> bytes(tensor.bytes.size());
    tensor.copy_bytes(bytes.data());
    all[tensor.name] = {tensor.dtype, tensor.shape, std::move(bytes)};
  }
  return all;
}

void write(const std::string& path, const StoredTensors& tensors) {
  SafetensorsWriter writer;
  for (const auto& [name, tensor] : tensors) writer.add(name, tensor.dtype, tensor.shape, tensor.bytes);
  fs::remove(path);
  writer.write(path);
}

std::vector<float> logits_of(const SmallCheckpoint& folder) {
  const CheckpointModel model(folder.path());
  KeptLogits watch;
  model.forward(SmallCheckpoint::some_ids(12), 1, 12, watch);
  return watch.all;
}
std::string problem_in(const SmallCheckpoint& folder) {
  return problem_of([&] { logits_of(folder); });
}
constexpr const char* kCodedExpert = "model.layers.1.block_sparse_moe.experts.2.w1.weight";  // [24, 16]

// A checkpoint with one weight in FP8 and scales of this shape, all 0.5.
class Fp8Checkpoint {
 public:
  Fp8Checkpoint(const std::string& name, std::vector<std::size_t> shape, const Json& quantization) : folder_(name) {
    folder_.write_config({{"quantization_config", quantization}});
    std::size_t count = 1;
    for (const std::size_t extent : shape) count *= extent;
    tensors_ = tensors_of(folder_);
    tensors_[kCodedExpert] = code_tensor(DType::f8_e4m3, {24, 16}, 24 * 16);
    if (count > 0)
      tensors_[std::string(kCodedExpert) + "_scale_inv"] = float_tensor(shape, std::vector<float>(count, 0.5f));
  }
  std::string problem() const {
    write(folder_.file("model.safetensors"), tensors_);
    return problem_in(folder_);
  }
  StoredTensors& tensors() { return tensors_; }
  const SmallCheckpoint& folder() const { return folder_; }

 private:
  SmallCheckpoint folder_;
  StoredTensors tensors_;
};

TEST(StoredContradictions, ScalesHaveTheShapeThatConfigJsonStates) {
  const Json fp8{{"quant_method", "fp8"}, {"weight_block_size", {8, 8}}};
  EXPECT_EQ(Fp8Checkpoint("scales_fit", {3, 2}, fp8).problem(), "");
  using Shapes = std::vector<std::vector<std::size_t>>;
  for (const auto& shape : Shapes{{1, 1}, {1}, {24, 1}, {2, 3}}) {
    const std::string problem = Fp8Checkpoint("scales_misfit", shape, fp8).problem();
    EXPECT_TRUE(says(problem, kCodedExpert)) << problem;
  }
  EXPECT_TRUE(says(Fp8Checkpoint("one_scale", {1}, fp8).problem(),
                   "'quantization_config.weight_block_size' it is FP8 with a scale for 8 x 8 values"));
  const Json by_tensor{{"quant_method", "modelopt"}, {"quant_algo", "FP8"}};
  EXPECT_EQ(Fp8Checkpoint("by_tensor", {1}, by_tensor).problem(), "");
  EXPECT_TRUE(says(Fp8Checkpoint("by_row", {24, 1}, by_tensor).problem(), "quant_algo"));
}

TEST(StoredContradictions, AnotherNumberOfBitsIsRefused) {
  const auto with_bits = [](int bits, const char* type) {
    return Json{
        {"quant_method", "compressed-tensors"},
        {"config_groups", {{"g", {{"weights", {{"num_bits", bits}, {"type", type}, {"strategy", "channel"}}}}}}}};
  };
  EXPECT_EQ(Fp8Checkpoint("bits", {24, 1}, with_bits(8, "float")).problem(), "");
  EXPECT_TRUE(says(Fp8Checkpoint("bits", {24, 1}, with_bits(8, "int")).problem(), "INT8 with a scale for each row"));
  EXPECT_TRUE(says(Fp8Checkpoint("bits", {24, 1}, with_bits(4, "float")).problem(), "FP4 with a scale for each row"));
}

TEST(StoredContradictions, CodesWithoutScalesAreRefusedOrNoted) {
  const Json fp8{{"quant_method", "fp8"}, {"weight_block_size", {8, 8}}};
  EXPECT_TRUE(says(Fp8Checkpoint("no_scales", {0}, fp8).problem(), "codes, but the file has no scales for them"));
  const Fp8Checkpoint bare("bare", {0}, nullptr);
  EXPECT_EQ(bare.problem(), "");
  EXPECT_EQ(CheckpointModel(bare.folder().path()).notes().size(), 1u);
}

TEST(StoredContradictions, DamagedScalesAreNamed) {
  const Json fp8{{"quant_method", "fp8"}, {"weight_block_size", {8, 8}}};
  for (const float damaged : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -1.0f}) {
    Fp8Checkpoint checkpoint("damaged", {3, 2}, fp8);
    checkpoint.tensors()[std::string(kCodedExpert) + "_scale_inv"] = float_tensor({3, 2}, {1, 1, damaged, 1, 1, 1});
    EXPECT_TRUE(says(checkpoint.problem(), std::string(kCodedExpert) + "_scale_inv': a scale is "))
        << checkpoint.problem();
  }
}

TEST(StoredContradictions, TensorsThatChangeCodesAreNamed) {
  const Json fp8{{"quant_method", "fp8"}, {"weight_block_size", {8, 8}}};
  const std::string module = std::string(kCodedExpert).substr(0, std::string(kCodedExpert).size() - 7);
  for (const std::string& name : {std::string(kCodedExpert) + "_g_idx", module + ".pre_quant_scale"}) {
    Fp8Checkpoint checkpoint("other", {3, 2}, fp8);
    checkpoint.tensors()[name] = float_tensor({16}, std::vector<float>(16, 1.0f));
    EXPECT_TRUE(says(checkpoint.problem(), "'" + name + "'")) << checkpoint.problem();
  }
}

TEST(StoredContradictions, ATensorThatNoLayerUsesIsAnError) {
  const SmallCheckpoint folder("unused");
  folder.write_tensors([](auto& tensors) {
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {2};
    tensors["model.layers.1.self_attn.k_scale"] = {1};
    tensors["model.layers.2.eh_proj.weight"] = {16, 32};  // a layer for the prediction of several tokens
    tensors["model.layers.2.input_layernorm.weight"] = {16};
  });
  EXPECT_EQ(problem_in(folder), "");
  for (const char* name : {"model.layers.0.mlp.shared_experts.up_proj.weight", "model.layers.3.input_layernorm.weight",
                           "model.layers.0.self_attn.q_norm.weight", "visual.patch.weight"}) {
    folder.write_tensors([&](auto& tensors) { tensors[name] = {16}; });
    EXPECT_EQ(problem_in(folder), folder.file("model.safetensors") + ": tensor '" + name +
                                      "' is used by no layer that config.json describes: is a key of config.json wrong "
                                      "or missing?");
  }
  folder.write_tensors();
  folder.write_config({{"num_hidden_layers", 1}});
  EXPECT_TRUE(says(problem_in(folder), "other tensors are used by no layer"));
}

TEST(StoredContradictions, ALayerForSeveralTokensIsNoLayerOfTheModel) {
  const SmallCheckpoint folder("predicting");
  folder.write_tensors([](auto& tensors) { tensors["model.layers.1.eh_proj.weight"] = {16, 32}; });
  EXPECT_TRUE(says(problem_in(folder), "'model.layers.1.eh_proj.weight' is used by no layer"));
}

TEST(StoredContradictions, AHeadThatDiffersFromTheEmbeddingIsUsedWithANote) {
  const SmallCheckpoint folder("tied");
  const std::vector<float> untied = logits_of(folder);
  folder.write_config({{"tie_word_embeddings", true}});
  EXPECT_EQ(logits_of(folder), untied);
  EXPECT_EQ(CheckpointModel(folder.path()).notes().size(), 1u);
  StoredTensors tensors = tensors_of(folder);
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"];
  write(folder.file("model.safetensors"), tensors);
  EXPECT_TRUE(CheckpointModel(folder.path()).notes().empty());
  const std::vector<float> tied = logits_of(folder);
  EXPECT_NE(tied, untied);
  tensors.erase("lm_head.weight");
  write(folder.file("model.safetensors"), tensors);
  EXPECT_EQ(logits_of(folder), tied);
}

// transformers 5 writes the names of its own modules if save_original_format is false.
TEST(StoredContradictions, MixtralInTheNamesOfTransformers5) {
  const SmallCheckpoint folder("stacked");
  const std::vector<float> before = logits_of(folder);
  StoredTensors old = tensors_of(folder), stacked;
  for (auto& [name, tensor] : old)
    if (!says(name, "block_sparse_moe")) stacked[name] = tensor;
  for (std::size_t layer = 0; layer < SmallCheckpoint::kLayers; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + '.';
    stacked[at + "mlp.gate.weight"] = old[at + "block_sparse_moe.gate.weight"];
    Stored gate_up{DType::f32, {SmallCheckpoint::kExperts, 48, 16}, {}}, down{DType::f32, {4, 16, 24}, {}};
    for (std::size_t e = 0; e < SmallCheckpoint::kExperts; ++e) {
      const std::string expert = at + "block_sparse_moe.experts." + std::to_string(e) + '.';
      for (const char* part : {"w1.weight", "w3.weight"})
        gate_up.bytes.insert(gate_up.bytes.end(), old[expert + part].bytes.begin(), old[expert + part].bytes.end());
      down.bytes.insert(down.bytes.end(), old[expert + "w2.weight"].bytes.begin(),
                        old[expert + "w2.weight"].bytes.end());
    }
    stacked[at + "mlp.experts.gate_up_proj"] = gate_up;
    stacked[at + "mlp.experts.down_proj"] = down;
  }
  write(folder.file("model.safetensors"), stacked);
  EXPECT_EQ(logits_of(folder), before);
}

TEST(StoredContradictions, AnIndexAgreesWithTheFiles) {
  const SmallCheckpoint folder("index");
  const StoredTensors tensors = tensors_of(folder);
  const auto put_index = [&](const std::string& head_file) {
    Json map = Json::object();
    for (const auto& [name, tensor] : tensors) map[name] = "a.safetensors";
    map["lm_head.weight"] = head_file;
    std::ofstream(folder.file("model.safetensors.index.json")) << Json{{"weight_map", map}}.dump();
  };
  write(folder.file("a.safetensors"), tensors);
  put_index("a.safetensors");
  EXPECT_TRUE(says(problem_in(folder), "holds model.safetensors and an index of other files"));
  fs::remove(folder.file("model.safetensors"));
  EXPECT_EQ(problem_in(folder), "");
  write(folder.file("b.safetensors"), {{"model.norm.bias", tensors.at("model.norm.weight")}});
  put_index("b.safetensors");
  EXPECT_TRUE(says(problem_in(folder), "'lm_head.weight' is not in 'b.safetensors'")) << problem_in(folder);
  std::ofstream(folder.file("a.safetensors")) << "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n";
  EXPECT_TRUE(says(problem_in(folder), "is a Git LFS pointer")) << problem_in(folder);
}

TEST(CheckpointFolder, ACacheOfHuggingFaceIsAFolderOfItsSnapshot) {
  const SmallCheckpoint files("cache_files");
  const SmallCheckpoint root("cache");
  fs::remove(root.file("config.json"));
  fs::remove(root.file("model.safetensors"));
  const fs::path cache = fs::path(root.path()) / "models--acme--tiny";
  const auto add = [&](const std::string& commit) {
    fs::create_directories(cache / "snapshots" / commit);
    for (const char* name : {"config.json", "model.safetensors"})
      fs::create_symlink(files.file(name), cache / "snapshots" / commit / name);
  };
  add("c1");
  EXPECT_EQ(checkpoint_folder(cache.string()), (cache / "snapshots/c1").string());
  EXPECT_EQ(checkpoint_folder(root.path()), (cache / "snapshots/c1").string());
  EXPECT_EQ(checkpoint_folder(files.file("config.json")), files.path());
  add("c2");
  EXPECT_TRUE(says(problem_of([&] { checkpoint_folder(cache.string()); }), "holds several models: "));
  fs::create_directories(cache / "refs");
  std::ofstream(cache / "refs/main") << "c2";
  EXPECT_EQ(checkpoint_folder(cache.string()), (cache / "snapshots/c2").string());
  fs::create_directories(cache / "adapter");
  std::ofstream(cache / "adapter/adapter_config.json") << "{}";
  EXPECT_TRUE(says(problem_of([&] { checkpoint_folder((cache / "adapter").string()); }), "is an adapter (PEFT)"));
  EXPECT_TRUE(says(problem_of([&] { checkpoint_folder((cache / "refs").string()); }), "holds no config.json"));
}

}  // namespace
}  // namespace moescope
