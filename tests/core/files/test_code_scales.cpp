// Weights that are stored as codes and scales (tests/data/tensors/write_codes.py): their values equal those of other
// implementations to the bit, or they are shown as codes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>

#include "core/files/tensors/open_tensors.h"
#include "core/files/tensors/safetensors.h"
#include "tests/support/says.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;
using Holds = TensorView::Holds;

std::string data(const std::string& name) {
  return MOESCOPE_TEST_DATA "/data/tensors/" + name;
}

void expect_same_bits(const std::vector<float>& found, const std::vector<float>& expected, const std::string& name) {
  ASSERT_EQ(found.size(), expected.size()) << name;
  ASSERT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0) << name;
}

TEST(CodeScales, CodesAndScalesOfEveryKnownLayoutMakeTheWeight) {
  const TensorFile file = open_tensors(data("codes.safetensors")),
                   expected = open_tensors(data("codes_expected.safetensors"));
  ASSERT_EQ(expected.tensors().size(), 11u);
  for (const TensorView& weight : expected.tensors()) {
    const TensorView& found = file.at(weight.name);
    ASSERT_TRUE(found.scales && found.floating()) << weight.name;
    EXPECT_EQ(found.holds, Holds::values) << weight.name;
    EXPECT_EQ(found.shape, weight.shape) << weight.name;
    const std::vector<float> all = weight.floats();
    expect_same_bits(found.floats(), all, weight.name);
    expect_same_bits(found.floats(0, 0), {}, weight.name);
    for (const std::size_t first : {std::size_t{1}, std::size_t{31}, all.size() / 2 + 3}) {
      const std::size_t count = std::min<std::size_t>(70, all.size() - first);
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(first);
      expect_same_bits(found.floats(first, count), {from, from + static_cast<std::ptrdiff_t>(count)}, weight.name);
    }
    EXPECT_EQ(found.doubles()[5], static_cast<double>(all[5])) << weight.name;
  }
  EXPECT_EQ(file.at("mxfp4.weight_packed").name, "mxfp4.weight");  // also by its name in the file
  EXPECT_EQ(file.at("fp8_tiles.weight").type_text(), "F8_E4M3 x F8_E8M0 of 128 x 128");
  EXPECT_EQ(file.at("fp8_tensor.weight").type_text(), "F8_E4M3 x F32");
  EXPECT_EQ(file.at("nvfp4_modelopt.weight").type_text(), "F4 x F8_E4M3 of 1 x 16 x F32");
}

TEST(CodeScales, PublishedLayoutsEqualTransformers) {
  const TensorFile file = open_tensors(data("published_codes.safetensors")),
                   expected = open_tensors(data("published_expected.safetensors"));
  for (const char* name : {"model.layers.0.mlp.down_proj.weight", "model.layers.0.mlp.gate_proj.weight"})
    expect_same_bits(file.at(name).floats(), expected.at(name).floats(), name);
  // Values have the layout of the file, [expert, out, in], with blocks along rows; transformers transposes them.
  const TensorView& down = file.at("model.layers.0.mlp.experts.down_proj");
  EXPECT_EQ(down.shape, (std::vector<std::size_t>{2, 64, 64}));
  const std::vector<float> found = down.floats(), turned = expected.at(down.name).floats();
  std::vector<float> back(turned.size());
  for (std::size_t e = 0; e < 2; ++e)
    for (std::size_t in = 0; in < 64; ++in)
      for (std::size_t out = 0; out < 64; ++out) back[(e * 64 + out) * 64 + in] = turned[(e * 64 + in) * 64 + out];
  expect_same_bits(found, back, down.name);
}

TEST(CodeScales, ScalesAreMarked) {
  const TensorFile file = open_tensors(data("codes.safetensors"));
  for (const char* name : {"fp8_tiles.scale", "mxfp8.weight_scale", "nvfp4_modelopt.weight_scale_2",
                           "nvfp4_compressed.weight_global_scale", "gptq.scales", "odd_shape.weight_scale"})
    EXPECT_EQ(file.at(name).holds, Holds::scales) << name;
  EXPECT_EQ(file.at("logit_scale").holds, Holds::values);  // not the scale of any tensor
  EXPECT_TRUE(says(file.at("fp8_tiles.scale").note, "scales of 'fp8_tiles.weight'"));
}

// vLLM and ModelOpt store the scale of the activations beside that of the weight.
TEST(CodeScales, ScalesOfActivationsAreNoWeight) {
  std::string header = R"({"l.weight":{"dtype":"F8_E4M3","shape":[2,4],"data_offsets":[0,8]},)"
                       R"("l.weight_scale":{"dtype":"F32","shape":[],"data_offsets":[8,12]},)"
                       R"("l.input_scale":{"dtype":"F32","shape":[],"data_offsets":[12,16]},)"
                       R"("other.input_scale":{"dtype":"F32","shape":[],"data_offsets":[16,20]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  const fs::path path = fs::temp_directory_path() / "moescope_input_scale.safetensors";
  std::ofstream(path, std::ios::binary) << std::string(reinterpret_cast<const char*>(&length), 8) << header
                                        << std::string(20, '\x38');
  const TensorFile file = open_tensors(path.string());
  EXPECT_EQ(file.at("l.input_scale").holds, Holds::scales);
  EXPECT_TRUE(file.at("l.weight").scales);
  EXPECT_EQ(file.at("other.input_scale").holds, Holds::values) << "no codes beside it";
  fs::remove(path);
}

TEST(CodeScales, CodesOfOtherLayoutsAreNoWeight) {
  const TensorFile file = open_tensors(data("codes.safetensors"));
  for (const char* name : {"odd_shape.weight", "no_second.weight_packed", "zero_point.weight", "two_scales.weight",
                           "gptq.qweight", "only_second.weight"}) {
    const TensorView& codes = file.at(name);
    EXPECT_EQ(codes.holds, Holds::codes) << name;
    EXPECT_FALSE(codes.scales) << name;
    EXPECT_TRUE(says(codes.note, "codes without their scales")) << codes.note;
  }
  EXPECT_TRUE(says(file.at("odd_shape.weight").note, "'odd_shape.weight_scale', F32 [5, 7]"));
  EXPECT_EQ(file.at("bare.weight").holds, Holds::values);
  EXPECT_TRUE(says(file.at("bare.weight").note, "no scales beside it"));
}

class CheckpointFolder : public testing::Test {
 protected:
  CheckpointFolder() : folder_(fs::temp_directory_path() / "moescope_checkpoint_folder") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~CheckpointFolder() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void put(const std::string& name, const std::string& text) const { std::ofstream(path(name)) << text; }
  // Writes a weight of 96 x 96 ones in FP8 to one file, and its scales, for tiles of 64 x 64, to another.
  void put_shards() const {
    const std::vector<std::uint8_t> codes(96 * 96, 0x38);
    const std::vector<float> scales = {2, 3, 4, 5};
    SafetensorsWriter weights, scales_file;
    weights.add("w", DType::f8_e4m3, {96, 96}, std::as_bytes(std::span(codes)));
    weights.write(path("model-00001-of-00002.safetensors"));
    scales_file.add("w_scale_inv", DType::f32, {2, 2}, std::as_bytes(std::span(scales)));
    scales_file.write(path("model-00002-of-00002.safetensors"));
  }
  static constexpr const char* kIndex =
      R"({"weight_map":{"w":"model-00001-of-00002.safetensors","w_scale_inv":"model-00002-of-00002.safetensors"}})";
  fs::path folder_;
};

TEST_F(CheckpointFolder, ScalesMayBeInAnotherFileAndTheConfigNamesTheTile) {
  put_shards();
  put("config.json", R"({"quantization_config":{"weight_block_size":[64,64]}})");
  put("model.safetensors.index.json", kIndex);
  EXPECT_TRUE(is_checkpoint_folder(folder_.string()));
  for (const std::string& opened : {folder_.string(), path("model.safetensors.index.json")}) {
    const TensorFile file = open_tensors(opened);
    const std::vector<float> values = file.at("w").floats();
    EXPECT_EQ(values[0], 2);
    EXPECT_EQ(values[64], 3);
    EXPECT_EQ(values[64 * 96], 4);
    EXPECT_EQ(values[96 * 96 - 1], 5);
    EXPECT_EQ(file.files().size(), 3u);
  }
  fs::remove(path("model.safetensors.index.json"));
  EXPECT_EQ(open_tensors(folder_.string()).at("w").floats()[64], 3);  // without an index: all files of the folder
}

TEST_F(CheckpointFolder, AnotherTileThanTheScalesFitIsNotGuessed) {
  put_shards();
  EXPECT_EQ(open_tensors(folder_.string()).at("w").holds, Holds::codes);  // 2 x 2 scales do not fit tiles of 128 x 128
}

TEST_F(CheckpointFolder, OneFileOfSeveralSaysThatTheScalesAreElsewhere) {
  put_shards();
  const TensorFile file = open_tensors(path("model-00001-of-00002.safetensors"));
  EXPECT_EQ(file.at("w").holds, Holds::codes);
  EXPECT_TRUE(says(file.at("w").note, "open its folder"));
}

TEST_F(CheckpointFolder, AMissingFileIsNamedAndTheOthersAreRead) {
  put_shards();
  put("model.safetensors.index.json", kIndex);
  fs::remove(path("model-00002-of-00002.safetensors"));
  const TensorFile file = open_tensors(folder_.string());
  ASSERT_EQ(file.skipped().size(), 1u);
  EXPECT_EQ(file.skipped()[0].name, "model-00002-of-00002.safetensors");
  EXPECT_EQ(file.tensors().size(), 1u);
}

TEST_F(CheckpointFolder, AnIndexNamesFilesOfItsOwnFolder) {
  const auto refused = [&](const std::string& index) {
    put("model.safetensors.index.json", index);
    try {
      open_tensors(folder_.string());
    } catch (const std::runtime_error& problem) {
      return std::string(problem.what());
    }
    return std::string("opened");
  };
  EXPECT_TRUE(says(refused(R"({"weight_map":{"w":"../secret"}})"), "is not the name of a file"));
  EXPECT_TRUE(says(refused(R"({"weight_map":{"w":5}})"), "is not the name of a file"));
  EXPECT_TRUE(says(refused(R"({"weights":{}})"), "weight_map"));
  EXPECT_TRUE(says(refused(R"({"weight_map":{}})"), "none of the files"));
  EXPECT_TRUE(says(refused("{"), "index.json"));
  put("other.bin.index.json", kIndex);
  EXPECT_TRUE(says(refused(kIndex), "2 indices"));
}

// Every file of a folder that is opened as a whole is refused if it is a link out of the folder.
TEST_F(CheckpointFolder, ALinkOutOfTheFolderIsRefused) {
  const fs::path elsewhere = folder_.string() + "_elsewhere";
  for (const char* name : {"model-00002-of-00002.safetensors", "model.safetensors.index.json", "config.json"})
    for (const char* opened : {".", "model.safetensors.index.json"}) {
      fs::remove_all(folder_);
      fs::remove_all(elsewhere);
      fs::create_directories(folder_);
      fs::create_directories(elsewhere);
      put_shards();
      put("config.json", R"({"quantization_config":{"weight_block_size":[64,64]}})");
      put("model.safetensors.index.json", kIndex);
      fs::rename(path(name), path("inside"));
      fs::create_symlink("inside", path(name));
      EXPECT_EQ(open_tensors(path(opened)).at("w").floats()[64], 3) << name;  // a link within the folder
      fs::rename(path("inside"), elsewhere / "file");
      fs::remove(path(name));
      fs::create_symlink(elsewhere / "file", path(name));
      if (std::string(name) == opened) continue;  // the user names the link itself
      try {
        open_tensors(path(opened));
        ADD_FAILURE() << name << " was read through " << opened;
      } catch (const std::runtime_error& problem) {
        EXPECT_TRUE(says(problem.what(), std::string(name) + ": is a link to ")) << problem.what();
      }
    }
  fs::remove_all(elsewhere);
}

}  // namespace
}  // namespace moescope
