#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/files/tensors/safetensors.h"

using namespace moescope;

namespace {

class SafetensorsTest : public ::testing::Test {
 protected:
  SafetensorsTest() {
    folder_ =
        std::filesystem::temp_directory_path() / ("moescope_safetensors_" + std::to_string(std::random_device{}()));
    std::filesystem::create_directory(folder_);
    path_ = (folder_ / "file.safetensors").string();
  }
  ~SafetensorsTest() override { std::filesystem::remove_all(folder_); }

  void write_raw(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  static std::string prefixed(const std::string& header, std::uint64_t length) {
    std::string bytes;
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i));
    return bytes + header;
  }
  void write_header(const std::string& header, std::size_t data_bytes) const {
    write_raw(prefixed(header, header.size()) + std::string(data_bytes, '\1'));
  }
  // Returns the message of the error that reading throws, which must name the file.
  std::string error_of() const {
    try {
      const SafetensorsFile file(path_);
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find(path_), std::string::npos) << error.what();
      return error.what();
    }
    return "no error";
  }
  void expect_error(const std::string& header, std::size_t data_bytes, const std::vector<std::string>& parts) const {
    write_header(header, data_bytes);
    const std::string error = error_of();
    for (const std::string& part : parts) EXPECT_NE(error.find(part), std::string::npos) << error << "\nlacks " << part;
  }

  std::filesystem::path folder_;
  std::string path_;
};

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// If another program rewrites the file, reading values that are gone throws an error and does not end the program.
TEST_F(SafetensorsTest, AFileThatBecomesShorterIsAnError) {
  SafetensorsWriter writer;
  const std::vector<float> values(100000, 2.0f);
  writer.add("w", DType::f32, {100, 1000}, std::as_bytes(std::span(values)));
  writer.write(path_);
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.at("w").floats(99999, 1)[0], 2.0f);
  std::filesystem::resize_file(path_, 8192);
  EXPECT_EQ(file.at("w").floats(0, 10)[9], 2.0f);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(file.at("w").floats(50000, 10), std::runtime_error);
    EXPECT_THROW(file.at("w").doubles(), std::runtime_error);
  }
  std::vector<std::byte> all(file.at("w").bytes.size());
  try {
    file.at("w").copy_bytes(all.data());
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("'w': its file was truncated"), std::string::npos) << error.what();
  }
}

}  // namespace

TEST_F(SafetensorsTest, WritesAndReadsBack) {
  const std::vector<float> floats = {1.5f, -2.0f, 3.25f, 0, 7, 8};
  const std::vector<std::int64_t> integers = {-(1LL << 60), 5};
  SafetensorsWriter writer;
  writer.add("layer.w", DType::f32, {2, 3}, bytes_of(floats));
  writer.add("count", DType::i64, {2}, bytes_of(integers));
  writer.add("empty", DType::f16, {0, 4}, {});
  writer.add("scalar", DType::f32, {}, bytes_of(std::vector<float>{9.0f}));
  writer.set_metadata("made_by", "test \"quoted\"");
  writer.write(path_);
  const SafetensorsFile file(path_);
  ASSERT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.tensors()[0].name, "layer.w");
  EXPECT_EQ(file.at("layer.w").shape, (std::vector<std::size_t>{2, 3}));
  EXPECT_EQ(file.at("layer.w").floats(), floats);
  EXPECT_EQ(file.at("layer.w").floats(2, 2), (std::vector<float>{3.25f, 0}));
  EXPECT_EQ(file.at("count").integers(), integers);
  EXPECT_EQ(file.at("empty").elements(), 0u);
  EXPECT_EQ(file.at("scalar").floats(), std::vector<float>{9.0f});
  EXPECT_EQ(file.metadata().at("made_by"), "test \"quoted\"");
  EXPECT_EQ(file.find("absent"), nullptr);
  EXPECT_THROW(file.at("layer.w").floats(5, 2), std::runtime_error);
  EXPECT_THROW(file.at("layer.w").integers(), std::runtime_error);
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(path_).parent_path()))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".moescope-")) << entry.path();
}

TEST_F(SafetensorsTest, AbsentTensorNamesNearMisses) {
  SafetensorsWriter writer;
  for (const char* name : {"layers.0.experts.w1", "layers.0.experts.w2", "embedding", "head"})
    writer.add(name, DType::f32, {0}, {});
  writer.write(path_);
  try {
    SafetensorsFile(path_).at("layers.0.expert.w1");
    FAIL();
  } catch (const std::runtime_error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("'layers.0.expert.w1'"), std::string::npos) << message;
    EXPECT_NE(message.find("'layers.0.experts.w1'"), std::string::npos) << message;
  }
}

TEST_F(SafetensorsTest, ConvertsEveryNarrowFloat) {
  const std::vector<std::uint16_t> codes = {0x3C00, 0xC000, 0x0001, 0x03FF, 0x7BFF, 0x7C00, 0x8000, 0x7E00};
  const std::vector<std::uint16_t> brain = {0x3F80, 0xC040, 0x0001};
  const std::vector<std::uint8_t> e4m3 = {0x38, 0x7E, 0x81}, e5m2 = {0x3C, 0x7B, 0xFC};
  SafetensorsWriter writer;
  writer.add("half", DType::f16, {8}, bytes_of(codes));
  writer.add("brain", DType::bf16, {3}, bytes_of(brain));
  writer.add("e4m3", DType::f8_e4m3, {3}, bytes_of(e4m3));
  writer.add("e5m2", DType::f8_e5m2, {3}, bytes_of(e5m2));
  writer.write(path_);
  const SafetensorsFile file(path_);
  const std::vector<float> halves = file.at("half").floats();
  EXPECT_EQ(std::vector<float>(halves.begin(), halves.begin() + 6),
            (std::vector<float>{1, -2, 0x1p-24f, 0x3FFp-24f, 65504, INFINITY}));
  EXPECT_TRUE(halves[6] == 0 && std::signbit(halves[6]));
  EXPECT_TRUE(std::isnan(halves[7]));
  EXPECT_EQ(file.at("brain").floats(), (std::vector<float>{1, -3, 0x1p-133f}));
  EXPECT_EQ(file.at("e4m3").floats(), (std::vector<float>{1, 448, -0x1p-9f}));
  EXPECT_EQ(file.at("e5m2").floats(), (std::vector<float>{1, 57344, -INFINITY}));
  EXPECT_EQ(file.at("e4m3").doubles(), (std::vector<double>{1, 448, -0x1p-9}));
}

TEST_F(SafetensorsTest, RefusesFoldersAndShortFiles) {
  EXPECT_NE(error_of().find("cannot be opened"), std::string::npos);
  EXPECT_THROW(SafetensorsFile{folder_.string()}, std::runtime_error);
  write_raw("");
  EXPECT_NE(error_of().find("holds 0 bytes"), std::string::npos);
  write_raw("1234567");
  EXPECT_NE(error_of().find("holds 7 bytes"), std::string::npos);
}

TEST_F(SafetensorsTest, RefusesHeaderLengths) {
  write_raw(prefixed("{}", 3));
  EXPECT_NE(error_of().find("header length is 3; allowed: at most 2"), std::string::npos);
  write_raw(prefixed("{}", ~0ULL));
  EXPECT_NE(error_of().find("header length is 18446744073709551615"), std::string::npos);
  write_raw(prefixed("", 0));
  EXPECT_NE(error_of().find("not valid JSON"), std::string::npos);
}

TEST_F(SafetensorsTest, RefusesBadHeaders) {
  expect_error("{\"a\":", 0, {"not valid JSON"});
  expect_error("\xff\xfe", 0, {"not valid JSON"});
  expect_error("[1,2]", 0, {"[1,2]", "JSON object"});
  expect_error(std::string(100000, '['), 0, {"a JSON object"});
  expect_error(R"({"a":5})", 0, {"'a'", "5", "object"});
  expect_error(R"({"__metadata__":{"k":1}})", 0, {"__metadata__", "'k'", "string"});
  expect_error(R"({"a":{"dtype":"F32","shape":[1]}})", 4, {"'a'", "data_offsets"});
  const std::string twice = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  expect_error("{" + twice + "," + twice + "}", 1, {"'a'", "twice"});
}

TEST_F(SafetensorsTest, RefusesBadTensors) {
  const auto tensor = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"t":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  expect_error(tensor("\"F33\"", "[1]", "[0,4]"), 5, {"end at byte 4", "5"});  // skipped, and its bytes are counted
  expect_error(tensor("3", "[1]", "[0,4]"), 4, {"'t'", "dtype is 3"});
  expect_error(tensor("\"F32\"", "[-1]", "[0,4]"), 4, {"'t'", "-1"});
  expect_error(tensor("\"F32\"", "[1.5]", "[0,4]"), 4, {"'t'", "1.5"});
  expect_error(tensor("\"F32\"", "7", "[0,4]"), 4, {"'t'", "shape is 7"});
  expect_error(tensor("\"F32\"", "[4294967296,4294967296]", "[0,4]"), 4, {"'t'", "overflows"});
  expect_error(tensor("\"F32\"", "[4611686018427387905]", "[0,4]"), 4, {"'t'", "overflows"});
  expect_error(tensor("\"F32\"", "[99999999999999999999]", "[0,4]"), 4, {"'t'", "shape"});
  expect_error(tensor("\"F32\"", "[2]", "[0,4]"), 4, {"'t'", "4 bytes", "[2] of F32", "8"});
  expect_error(tensor("\"F32\"", "[1]", "[4,0]"), 4, {"'t'", "[4,0]"});
  expect_error(tensor("\"F32\"", "[1]", "[0,4]"), 3, {"'t'", "[0,4]", "3"});
  expect_error(tensor("\"F32\"", "[1]", "[-4,0]"), 4, {"'t'", "data_offsets"});
  expect_error(tensor("\"F32\"", "[1]", "[0]"), 4, {"'t'", "data_offsets"});
  expect_error(tensor("\"F32\"", "[1]", "[0,18446744073709551615]"), 4, {"'t'", "data_offsets"});
  expect_error(tensor("\"F32\"", "[1]", "[0,4]"), 5, {"end at byte 4", "5"});
}

TEST_F(SafetensorsTest, RefusesOverlapAndHoles) {
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
  };
  expect_error(two("[0,4]", "[2,6]"), 6, {"'b'", "begins at byte 2", "'a'", "4"});
  expect_error(two("[0,4]", "[0,4]"), 4, {"overlap"});
  expect_error(two("[0,4]", "[5,9]"), 9, {"'b'", "begins at byte 5", "hole"});
  write_header(two("[4,8]", "[0,4]"), 8);
  EXPECT_EQ(SafetensorsFile(path_).tensors()[0].name, "b");  // in file order
}

// A file that is cut anywhere, or has any one byte changed, is read or refused, without a crash.
TEST_F(SafetensorsTest, DamagedFilesAreReadOrRefused) {
  SafetensorsWriter writer;
  writer.add("a", DType::f32, {2, 2}, bytes_of(std::vector<float>{1, 2, 3, 4}));
  writer.add("b", DType::u8, {3}, bytes_of(std::vector<std::uint8_t>{1, 2, 3}));
  writer.set_metadata("k", "v");
  writer.write(path_);
  std::ifstream in(path_, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    write_raw(whole.substr(0, cut));
    EXPECT_NE(error_of(), "no error") << cut;
  }
  std::mt19937 random(1);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(random());
    write_raw(damaged);
    try {
      const SafetensorsFile file(path_);
      for (const TensorView& tensor : file.tensors()) EXPECT_EQ(tensor.doubles().size(), tensor.elements());
    } catch (const std::runtime_error&) {
    }
  }
}

TEST_F(SafetensorsTest, AnUnfinishedStreamLeavesNothing) {
  {
    SafetensorsStream stream(path_, {{"a", DType::f32, {2}}}, {});
    stream.append(bytes_of(std::vector<float>{1}));
    EXPECT_THROW(stream.finish(), std::runtime_error);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  EXPECT_THROW(SafetensorsStream((folder_ / "absent" / "x").string(), {}, {}), std::runtime_error);
  SafetensorsWriter writer;
  writer.add("a", DType::f32, {3}, bytes_of(std::vector<float>{1, 2}));
  EXPECT_THROW(writer.write(path_), std::runtime_error);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}
