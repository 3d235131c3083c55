// Files of tensors that PyTorch and NumPy wrote (tests/data/tensors/write.py): names, shapes, values, and what is
// refused.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

#include "core/files/file_kind.h"
#include "core/files/tensors/open_tensors.h"
#include "core/files/tensors/pickle.h"

namespace moescope {
namespace {

std::string kept(const std::string& name) {
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
  const TensorFile file = open_tensors(kept("checkpoint.pt"));
  const std::vector<float> a = open_tensors(kept("alone.pt")).at("alone").floats();
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
  const std::vector<float> half = file.at("half").floats(), moment = file.at("optimizer.state.0.exp_avg").floats();
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(half[i], a[i], std::abs(a[i]) * 0x1p-8f);
    EXPECT_NEAR(moment[i], a[i], std::abs(a[i]) * 0x1p-11f + 1e-7f);
  }
}

TEST(TensorFiles, AnArrayOfNumPyIsNamedLikeItsFile) {
  const TensorFile file = open_tensors(kept("values.npy"));
  EXPECT_EQ(file.at("values").shape, (std::vector<std::size_t>{3, 32}));
  EXPECT_EQ(file.at("values").floats(), open_tensors(kept("alone.pt")).at("alone").floats());
  EXPECT_EQ(open_tensors(kept("scalar.npy")).at("scalar").doubles(), std::vector<double>{2.5});
  EXPECT_EQ(open_tensors(kept("bytes.npy")).at("bytes").integers(), (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(TensorFiles, WhatIsNotReadIsRefusedWithTheFix) {
  EXPECT_NE(refused(kept("turned.pt")).find("'turned': is not stored row by row (strides [1, 32]); save tensor.cont"),
            std::string::npos);
  EXPECT_NE(refused(kept("module.pt")).find("needs the Python object __main__ Model, and nothing in a file is run"),
            std::string::npos);
  EXPECT_NE(refused(kept("before_1_6.pt")).find("bare pickle, as PyTorch before 1.6 wrote"), std::string::npos);
  EXPECT_NE(refused(kept("columns.npy")).find("numpy.ascontiguousarray"), std::string::npos);
  EXPECT_NE(refused(kept("big_endian.npy")).find("descr is '>f4'; allowed: <f8, <f4"), std::string::npos);
}

TEST(TensorFiles, AreKnownByTheirFirstBytes) {
  for (const char* name : {"checkpoint.pt", "before_1_6.pt", "values.npy"})
    EXPECT_EQ(file_kind(kept(name)), FileKind::tensors) << name;
  const auto renamed = std::filesystem::temp_directory_path() / "moescope_tensors_renamed.bin";
  std::filesystem::copy_file(kept("alone.pt"), renamed, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(file_kind(renamed.string()), FileKind::tensors);
  EXPECT_EQ(open_tensors(renamed.string()).tensors().size(), 1u);
  std::filesystem::remove(renamed);
}

// Cut at every length and changed at random places: an error or values, never a crash.
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
  for (const char* name : {"checkpoint.pt", "alone.pt", "values.npy"}) {
    std::ifstream file(kept(name), std::ios::binary);
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
  EXPECT_EQ(pickle.root->items[0]->text, "os system");
  EXPECT_THROW(read_pickle("\x80\x02}"), std::runtime_error);
  EXPECT_THROW(read_pickle("\x80\x02(."), std::runtime_error);
}

}  // namespace
}  // namespace moescope
