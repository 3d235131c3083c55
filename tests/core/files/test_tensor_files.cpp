// Files of tensors that PyTorch and NumPy wrote (tests/data/tensors/write.py): names, shapes, values, and what is
// refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

#include "core/files/tensors/open_tensors.h"
#include "core/files/tensors/pickle.h"
#include "core/logs/file_kind.h"
#include "tests/support/problem_of.h"
#include "tests/support/says.h"

namespace moescope {
namespace {

std::string data_file(const std::string& name) {
  return MOESCOPE_TEST_DATA "/data/tensors/" + name;
}

std::string refused(const std::string& path) {
  try {
    open_tensors(path);
  } catch (const std::runtime_error& problem) {
    return problem.what();
  }
  return "opened";
}

TEST(TensorFiles, ACheckpointOfPyTorchHasItsTensorsByTheWayToThem) {
  const TensorFile file = open_tensors(data_file("checkpoint.pt"));
  const std::vector<float> a = open_tensors(data_file("alone.pt")).at("alone").floats();
  ASSERT_EQ(a.size(), 96u);
  EXPECT_EQ(a[0], -1.5255959033966064f);  // as PyTorch prints them
  EXPECT_EQ(a[1], -0.7502318024635315f);
  EXPECT_EQ(a[32], 1.8793457746505737f);
  EXPECT_EQ(file.tensors().size(), 9u);
  const TensorView& gate = file.at("model.gate.weight");
  EXPECT_EQ(gate.shape, (std::vector<std::size_t>{2, 4}));
  EXPECT_EQ(gate.floats()[0], 0.11469507217407227f);
  EXPECT_EQ(gate.floats()[1], -0.11898714303970337f);
  EXPECT_EQ(file.at("model.steps").integers(), std::vector<std::int64_t>{7});
  EXPECT_TRUE(file.at("model.steps").shape.empty());
  EXPECT_EQ(file.at("ids").integers(), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(file.at("list.1").integers(), (std::vector<std::int64_t>{0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(file.at("part").floats(), std::vector<float>(a.begin() + 32, a.end()));
  EXPECT_EQ(file.at("list.0").floats(), std::vector<float>(a.begin(), a.begin() + 32));
  const std::vector<float> halves = file.at("half").floats(), moment = file.at("optimizer.state.0.exp_avg").floats();
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(halves[i], a[i], std::abs(a[i]) * 0x1p-8f);
    EXPECT_NEAR(moment[i], a[i], std::abs(a[i]) * 0x1p-11f + 1e-7f);
  }
}

TEST(TensorFiles, AnArrayOfNumPyIsNamedLikeItsFile) {
  const TensorFile file = open_tensors(data_file("values.npy"));
  EXPECT_EQ(file.at("values").shape, (std::vector<std::size_t>{3, 32}));
  EXPECT_EQ(file.at("values").floats(), open_tensors(data_file("alone.pt")).at("alone").floats());
  EXPECT_EQ(open_tensors(data_file("scalar.npy")).at("scalar").doubles(), std::vector<double>{2.5});
  EXPECT_EQ(open_tensors(data_file("bytes.npy")).at("bytes").integers(), (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

// Returns the values of wave() in write_torch2.py.
std::vector<float> wave(std::size_t count) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i) * 0.375f - 7);
  return values;
}

std::string why_skipped(const TensorFile& file, const std::string& name) {
  const auto found = std::ranges::find(file.skipped(), name, &SkippedEntry::name);
  return found == file.skipped().end() ? "not skipped" : found->reason;
}

TEST(TensorFiles, TensorsOfAnyStridesHaveTheirValuesInTheOrderOfTheirIndices) {
  const TensorFile file = open_tensors(data_file("torch2_many.pt"));
  const std::vector<float> base = wave(48);
  EXPECT_EQ(file.at("shared").floats(), base);
  const TensorView& transposed = file.at("transposed");
  EXPECT_EQ(transposed.shape, (std::vector<std::size_t>{8, 6}));
  for (std::size_t row = 0; row < 8; ++row)
    for (std::size_t col = 0; col < 6; ++col) {
      EXPECT_EQ(transposed.floats(row * 6 + col, 1)[0], base[col * 8 + row]);
      EXPECT_EQ(transposed.floats()[row * 6 + col], base[col * 8 + row]);
    }
  EXPECT_EQ(file.at("permuted").shape, (std::vector<std::size_t>{4, 2, 3}));
  const std::vector<float> cube = wave(24);  // [2, 3, 4]; its element [1, 2, 0] is permuted's [0, 1, 2]
  EXPECT_EQ(file.at("permuted").floats(5, 3), (std::vector<float>{cube[20], cube[1], cube[5]}));
  EXPECT_EQ(file.at("slice").floats(),
            (std::vector<float>{base[10], base[11], base[12], base[13], base[26], base[27], base[28], base[29]}));
  EXPECT_EQ(file.at("scalar").floats(), std::vector<float>{base[28]});
  EXPECT_EQ(file.at("expanded").floats(24, 8), wave(8));
  EXPECT_EQ(file.at("empty").elements(), 0u);
  for (const char* name : {"parameter", "buffer", "plain"}) EXPECT_EQ(file.at(name).floats(), wave(12)) << name;
  std::vector<std::byte> copied(transposed.elements() * sizeof(float));
  transposed.copy_bytes(copied.data());
  EXPECT_EQ(std::memcmp(copied.data(), transposed.floats().data(), copied.size()), 0);
}

TEST(TensorFiles, ANamespaceOfSettingsIsSkippedByName) {
  const TensorFile file = open_tensors(data_file("namespace.pt"));
  ASSERT_EQ(file.skipped().size(), 1u);
  EXPECT_EQ(file.skipped()[0].name, "args");
  EXPECT_TRUE(says(why_skipped(file, "args"), "argparse.Namespace"));
  EXPECT_EQ(file.tensors().size(), 1u);
  for (const TensorView& tensor : file.tensors()) EXPECT_FALSE(tensor.floats().empty()) << tensor.name;
}

TEST(TensorFiles, EveryTypeOfPyTorchIsReadOrSkippedByName) {
  const TensorFile file = open_tensors(data_file("torch2_many.pt"));
  EXPECT_EQ(file.at("bf16").floats(), wave(16));
  EXPECT_EQ(file.at("half").floats(), wave(16));
  EXPECT_EQ(file.at("e4m3").floats()[1], -6.5f);
  EXPECT_EQ(file.at("e5m2").floats()[1], -7.0f);  // the nearest of 6 and 7
  EXPECT_EQ(file.at("e8m0").floats()[0], 0x1p-7f);
  EXPECT_EQ(file.at("e2m1").shape, (std::vector<std::size_t>{2, 16}));
  EXPECT_EQ(file.at("e2m1").floats(0, 4), (std::vector<float>{0, 0, 1.5f, 0}));  // 0x00, 0x03
  EXPECT_EQ(file.at("u16").integers(), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_TRUE(says(why_skipped(file, "complex"), "ComplexFloatStorage"));
  EXPECT_TRUE(says(why_skipped(file, "e4m3fnuz"), "float8_e4m3fnuz"));
  EXPECT_TRUE(says(why_skipped(file, "negated"), "resolve_neg"));
  EXPECT_TRUE(says(why_skipped(file, "sparse"), "to_dense"));
  EXPECT_TRUE(says(why_skipped(file, "csr"), "to_dense"));
  EXPECT_TRUE(says(why_skipped(file, "quantized"), "dequantize"));
  EXPECT_TRUE(says(why_skipped(file, "nested"), "nested"));
  EXPECT_TRUE(says(why_skipped(file, "meta"), "meta"));
  EXPECT_TRUE(says(why_skipped(file, "wrapped"), "Wrapped, whose values its class computes"));
  EXPECT_EQ(file.at("numpy").floats(), std::vector<float>(4, 1));
  EXPECT_EQ(file.at("numpy_rng.1").elements(), 624u);
  EXPECT_EQ(why_skipped(file, "float64"), "not skipped");
  EXPECT_EQ(why_skipped(file, "large"), "not skipped");  // not a tensor
  EXPECT_EQ(why_skipped(file, "huge"), "not skipped");
  EXPECT_EQ(file.skipped().size(), 9u);
}

TEST(TensorFiles, ModulesScriptsAndEarlierFormatsOfPyTorchAreRead) {
  for (const char* name : {"torch2_module.pt", "module.pt"}) {
    EXPECT_EQ(open_tensors(data_file(name)).at("gate.weight").shape, (std::vector<std::size_t>{2, 4})) << name;
    EXPECT_EQ(open_tensors(data_file(name)).at("steps").integers(), std::vector<std::int64_t>{7}) << name;
  }
  EXPECT_EQ(open_tensors(data_file("torch2_module.pt")).at("gate.weight").floats(), wave(8));
  EXPECT_EQ(open_tensors(data_file("torch2_script.pt")).at("weight").floats(), wave(8));
  EXPECT_EQ(open_tensors(data_file("torch2_script.pt")).at("bias").floats(), wave(2));
  EXPECT_EQ(open_tensors(data_file("torch2_legacy.pt")).at("b").floats(), wave(48));
  EXPECT_EQ(open_tensors(data_file("torch2_legacy.pt")).at("a").floats(0, 2), (std::vector<float>{-7, -4}));
  EXPECT_EQ(open_tensors(data_file("before_1_6.pt")).at("a").floats(),
            open_tensors(data_file("alone.pt")).at("alone").floats());
  EXPECT_EQ(open_tensors(data_file("torch2_protocol5.pt")).at("a").floats(), wave(48));
  EXPECT_EQ(open_tensors(data_file("torch2_no_checksum.pt")).at("a").floats(), wave(48));
  EXPECT_EQ(open_tensors(data_file("turned.pt")).at("turned").shape, (std::vector<std::size_t>{32, 3}));
}

TEST(TensorFiles, ADTensorIsReadWhereItsPartIsTheWhole) {
  const TensorFile file = open_tensors(data_file("torch2_dtensor.pt"));
  EXPECT_EQ(file.at("whole").floats(), wave(12));
  EXPECT_TRUE(says(why_skipped(file, "part"), "a part of the DTensor [4, 4]"));
}

TEST(TensorFiles, EveryTypeOfSafetensorsIsReadOrSkippedByName) {
  const TensorFile file = open_tensors(data_file("every_type.safetensors"));
  EXPECT_EQ(file.at("f32").floats(), wave(12));
  EXPECT_EQ(file.at("bf16").floats(), wave(12));
  const std::vector<float> powers = file.at("e8m0").floats();
  ASSERT_EQ(powers.size(), 256u);
  for (int code = 0; code < 255; ++code)
    EXPECT_EQ(powers[static_cast<std::size_t>(code)], std::ldexp(1.0f, code - 127));
  EXPECT_TRUE(std::isnan(powers[255]));
  const std::vector<float> pairs = file.at("f4").floats();
  constexpr float kE2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  ASSERT_EQ(pairs.size(), 512u);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(pairs[2 * byte], kE2m1[byte & 15]);
    EXPECT_EQ(pairs[2 * byte + 1], kE2m1[byte >> 4]);
    EXPECT_EQ(file.at("f4").floats(2 * byte + 1, 1)[0], kE2m1[byte >> 4]);
  }
  for (const char* name : {"c64", "fnuz4", "fnuz5"})
    EXPECT_TRUE(says(why_skipped(file, name), "which is not supported")) << name;
  EXPECT_EQ(file.skipped().size(), 3u);
  EXPECT_EQ(file.tensors().size(), 9u);
}

TEST(TensorFiles, ArraysOfNumPyInAnyOrderOfBytesAndColumns) {
  const std::vector<float> a = open_tensors(data_file("alone.pt")).at("alone").floats();
  EXPECT_EQ(open_tensors(data_file("columns.npy")).at("columns").floats(), a);
  EXPECT_EQ(open_tensors(data_file("columns.npy")).at("columns").shape, (std::vector<std::size_t>{3, 32}));
  EXPECT_EQ(open_tensors(data_file("big_endian.npy")).at("big_endian").floats(), a);
  for (const char* name : {"stored.npz", "packed.npz"}) {
    const TensorFile file = open_tensors(data_file(name));
    EXPECT_EQ(file.at("a").floats(), a) << name;
    EXPECT_EQ(file.at("turned").shape, (std::vector<std::size_t>{32, 3})) << name;
    EXPECT_EQ(file.at("turned").floats(3, 3), (std::vector<float>{a[1], a[33], a[65]})) << name;
  }
  EXPECT_TRUE(says(why_skipped(open_tensors(data_file("stored.npz")), "text"), "descr is '<U1'"));
}

TEST(TensorFiles, TypesOfMlDtypesAreReadAndTheAmbiguousNeedAnOption) {
  const std::vector<float> bf16 = open_tensors(data_file("ml_bfloat16.npy")).at("ml_bfloat16").floats();
  EXPECT_EQ(bf16[0], 4.0f);
  EXPECT_EQ(bf16[23], 4.625f);
  EXPECT_EQ(open_tensors(data_file("ml_float8_e5m2.npy")).at("ml_float8_e5m2").floats()[2],
            3.0f);  // 3.25 rounds to even
  EXPECT_TRUE(says(refused(data_file("ml_float8_e4m3fn.npy")), "--dtype F8_E4M3, F8_E5M2 or F8_E8M0"));
  const TensorFile e4m3 = open_tensors(data_file("ml_float8_e4m3fn.npy"), {DType::f8_e4m3});
  EXPECT_EQ(e4m3.at("ml_float8_e4m3fn").floats()[2], 3.25f);
  const TensorFile e8m0 = open_tensors(data_file("ml_float8_e8m0fnu.npy"), {DType::f8_e8m0});
  EXPECT_EQ(e8m0.at("ml_float8_e8m0fnu").floats()[0], 4.0f);
  EXPECT_THROW(open_tensors(data_file("ml_float8_e4m3fn.npy"), {DType::bf16}), UntypedArray);
}

TEST(TensorFiles, AreKnownByTheirFirstBytes) {
  for (const char* name : {"checkpoint.pt", "before_1_6.pt", "values.npy", "stored.npz"})
    EXPECT_EQ(file_kind(data_file(name)), FileKind::tensors) << name;
  const auto renamed = std::filesystem::temp_directory_path() / "moescope_tensors_renamed.bin";
  std::filesystem::copy_file(data_file("alone.pt"), renamed, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(file_kind(renamed.string()), FileKind::tensors);
  EXPECT_EQ(open_tensors(renamed.string()).tensors().size(), 1u);
  for (const auto& [bytes, reason] :
       {std::pair<std::string, std::string>{"\x1f\x8b\x08\0\0\0\0\0\0\0", "is gzip-compressed"},
        {"hello world, this is text", "begins like no file of tensors"},
        {"", "begins like no file of tensors"}}) {
    std::ofstream(renamed, std::ios::binary | std::ios::trunc) << bytes;
    EXPECT_NE(problem_of([&] { open_tensors(renamed.string()); }).find(reason), std::string::npos) << reason;
  }
  std::filesystem::remove(renamed);
}

// Files that are cut at every length or changed at random places give an error or values, never a crash.
TEST(TensorFiles, DamagedOnesAreRefusedOrRead) {
  const std::string path = (std::filesystem::temp_directory_path() / "moescope_tensors_damaged").string();
  std::mt19937 random(1);
  int opened = 0, failed = 0;
  const auto open = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    try {
      const TensorFile file = open_tensors(path);
      for (const TensorView& tensor : file.tensors()) EXPECT_EQ(tensor.floats().size(), tensor.elements());
      ++opened;
    } catch (const std::runtime_error& problem) {
      EXPECT_TRUE(std::string(problem.what()).starts_with(path)) << problem.what();
      ++failed;
    }
  };
  for (const char* name : {"checkpoint.pt", "torch2_legacy.pt", "torch2_dtensor.pt", "values.npy", "packed.npz"}) {
    std::ifstream file(data_file(name), std::ios::binary);
    const std::string whole{std::istreambuf_iterator<char>(file), {}};
    for (std::size_t length = 0; length < whole.size(); length += 37) open(whole.substr(0, length));
    for (int i = 0; i < 250; ++i) {
      std::string changed = whole;
      for (int n = 0; n < 1 + i % 3; ++n) changed[random() % changed.size()] = static_cast<char>(random());
      open(changed);
    }
  }
  std::filesystem::remove(path);
  EXPECT_GT(opened, 100);
  EXPECT_GT(failed, 200);
}

TEST(TensorFiles, APickleRunsNothing) {
  const std::string call(
      "\x80\x02"
      "cos\nsystem\n"
      "X\x04\0\0\0true"
      "\x85R.",
      2 + 11 + 9 + 3);
  const Pickle pickle = read_pickle(call);
  EXPECT_EQ(pickle.root->kind, PickleValue::Kind::call);
  EXPECT_TRUE(pickle.root->items[0]->is("os", "system"));
  EXPECT_THROW(read_pickle("\x80\x02}"), std::runtime_error);
  EXPECT_THROW(read_pickle("\x80\x02(."), std::runtime_error);
}

}  // namespace
}  // namespace moescope
