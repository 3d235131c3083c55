// Routed experts as vLLM, SGLang and verl document them, written here: the engines themselves are not run. The .npy
// files are NumPy's own where tests/python is used (test_tensor_files.cpp reads those).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "core/files/file_kind.h"
#include "core/files/open_runs.h"
#include "core/files/routing/import_routed_experts.h"
#include "core/io/base64.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr int kLayers = 4, kTopK = 2, kExperts = 8;

// [tokens, layers, K] of which layer 0 is dense, as engines write it.
std::vector<int> routes(int tokens, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int> ids;
  for (int t = 0; t < tokens; ++t) {
    for (int layer = 0; layer < kLayers; ++layer) {
      const int first = static_cast<int>(random() % kExperts);
      const int second = (first + 1 + static_cast<int>(random() % (kExperts - 1))) % kExperts;
      ids.insert(ids.end(), {layer == 0 ? 0 : first, layer == 0 ? 0 : second});
    }
  }
  return ids;
}

std::vector<std::uint32_t> counted(const std::vector<int>& ids, int layer) {
  std::vector<std::uint32_t> counts(kExperts);
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (static_cast<int>(i) / kTopK % kLayers == layer) ++counts[static_cast<std::size_t>(ids[i])];
  return counts;
}

template <class T>
std::string bytes_of(const std::vector<int>& ids) {
  std::string bytes;
  for (const int id : ids) {
    const T value = static_cast<T>(id);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return bytes;
}

std::string npy(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.append(63 - (header.size() + 10) % 64, ' ').append("\n");
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 255) +
         static_cast<char>(header.size() >> 8) + header + data;
}

std::string base64_of(const std::string& bytes) {
  return base64({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

class RoutedExperts : public testing::Test {
 protected:
  RoutedExperts() : folder(fs::temp_directory_path() / ("moescope_routed_" + std::to_string(::getpid()))) {
    fs::create_directories(folder);
  }
  ~RoutedExperts() override { fs::remove_all(folder); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    return (folder / name).string();
  }
  static void expect_loads(const std::string& path, const std::vector<std::vector<int>>& sequences) {
    EXPECT_EQ(file_kind(path), FileKind::routed_experts);
    const OpenedRuns opened = open_runs({path}, {}, 4);
    ASSERT_EQ(opened.histories.size(), 1u);
    EXPECT_TRUE(opened.skipped.empty());
    const History& history = *opened.histories[0];
    EXPECT_EQ(history.info().moe_layers, (std::vector<int>{1, 2, 3})) << "layer 0 is dense";
    EXPECT_EQ(history.info().top_k, kTopK);
    EXPECT_EQ(history.info().n_experts, kExperts);
    ASSERT_EQ(history.steps(), (StepRange{0, std::ssize(sequences) - 1}));
    for (std::size_t s = 0; s < sequences.size(); ++s)
      for (int layer = 1; layer < kLayers; ++layer)
        EXPECT_EQ(history.frame_at(static_cast<std::int64_t>(s))
                      ->routers[static_cast<std::size_t>(layer - 1)]
                      .tokens_per_expert,
                  counted(sequences[s], layer));
  }
  fs::path folder;
};

TEST_F(RoutedExperts, OfVllmsResponses) {
  const auto a = routes(40, 1), b = routes(25, 2);
  const auto response = [](const std::vector<int>& ids) {
    const std::string shape = "(" + std::to_string(ids.size() / (kLayers * kTopK)) + ", 4, 2)";
    return "{\"id\": \"x\", \"choices\": [{\"index\": 0, \"text\": \"" + std::string(9000, 'x') +
           "\", \"routed_experts\": \"" + base64_of(npy("<i4", shape, bytes_of<std::int32_t>(ids))) + "\"}]}";
  };
  expect_loads(write("log.jsonl", response(a) + "\n" + response(b) + "\n"), {a, b});
  std::string pretty = response(a);
  pretty.insert(1, "\n  ");
  expect_loads(write("one.json", pretty), {a});
}

TEST_F(RoutedExperts, OfVllmsArrays) {
  const auto ids = routes(40, 3);
  expect_loads(write("r.npy", npy("|u1", "(40, 4, 2)", bytes_of<std::uint8_t>(ids))), {ids});
}

TEST_F(RoutedExperts, OfSglangsResponses) {
  const auto a = routes(40, 4), b = routes(60, 5);
  const auto native = [](const std::vector<int>& ids) {
    const auto tokens = ids.size() / (kLayers * kTopK) + 1;
    return "{\"text\": \"...\", \"meta_info\": {\"routed_experts\": \"" + base64_of(bytes_of<std::int32_t>(ids)) +
           "\", \"prompt_tokens\": 7, \"completion_tokens\": " + std::to_string(tokens - 7) + "}}\n";
  };
  expect_loads(write("native.jsonl", native(a) + native(b)), {a, b});
  const std::string openai = "{\"choices\": [{\"message\": {}, \"sgl_ext\": {\"routed_experts\": \"" +
                             base64_of(bytes_of<std::int32_t>(a)) +
                             "\"}}], \"usage\": {\"prompt_tokens\": 1, \"completion_tokens\": 40}}\n";
  expect_loads(write("openai.jsonl", openai), {a});
}

TEST_F(RoutedExperts, OfVerlsBatches) {
  auto a = routes(40, 6), b = routes(40, 7);
  std::fill(b.end() - 10 * kLayers * kTopK, b.end(), 0);  // padding
  std::vector<int> both = a;
  both.insert(both.end(), b.begin(), b.end());
  const std::string path =
      write("step_7_routed_experts.npy", npy("<i2", "(2, 40, 4, 2)", bytes_of<std::int16_t>(both)));
  b.resize(30 * kLayers * kTopK);
  expect_loads(path, {a, b});
}

TEST_F(RoutedExperts, TwoOfTheSameTokensGiveFlipsAndOverlap) {
  const auto a = routes(40, 8);
  auto b = a;
  for (int token = 0; token < 10; ++token) {  // in layer 2 a quarter of the tokens get another second expert
    const auto at = static_cast<std::size_t>((token * kLayers + 2) * kTopK);
    do b[at + 1] = (b[at + 1] + 1) % kExperts;
    while (b[at + 1] == a[at] || b[at + 1] == a[at + 1]);
    std::swap(b[at], b[at + 1]);  // the order does not matter
  }
  const auto file = [&](const std::string& name, const std::vector<int>& ids) {
    return write(name, npy("|u1", "(40, 4, 2)", bytes_of<std::uint8_t>(ids)));
  };
  const OpenedRuns opened = open_runs({file("train.npy", a), file("infer.npy", b)}, {}, 4);
  ASSERT_EQ(opened.histories.size(), 2u);
  EXPECT_FALSE(opened.histories[0]->flip_frame_at(0));
  const auto frame = opened.histories[1]->flip_frame_at(0);
  ASSERT_TRUE(frame);
  ASSERT_EQ(frame->flips.size(), 3u);
  EXPECT_EQ(frame->flips[1].layer, 2);
  EXPECT_FLOAT_EQ(frame->flips[1].flip_rate, 0.25f);
  EXPECT_FLOAT_EQ(frame->flips[1].overlap, 0.875f);
  EXPECT_FLOAT_EQ(frame->flips[0].flip_rate, 0);
  EXPECT_FLOAT_EQ(frame->flips[2].overlap, 1);
}

TEST_F(RoutedExperts, WhatCannotBeReadIsSaid) {
  BadLines bad;
  EXPECT_FALSE(
      read_routed_bytes("{\"routed_experts\": \"AAAA\"}\n{\"routed_experts\": \"?\"}\n{\"routed_experts\": 3}\n"
                        "{\"routed_experts\": [[[1, 2]], [[1]]]}\n{\"routed_experts\": [[[-2, 1]]]}\n[1]\n",
                        bad));
  EXPECT_EQ(bad.count(), 6) << bad.text();
  EXPECT_NE(bad.text().find("prompt_tokens"), std::string::npos) << bad.text();
  EXPECT_NE(bad.text().find("not base64"), std::string::npos) << bad.text();
  const auto problem = [&](const std::string& path) -> std::string {
    try {
      import_routed_experts(path);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(problem(write("a.json", "{\"routed_experts\": null}")).find("holds no routed_experts"), std::string::npos);
  const std::vector<int> zeros(8);
  EXPECT_NE(problem(write("z.npy", npy("|u1", "(1, 4, 2)", bytes_of<std::uint8_t>(zeros)))).find("no routing"),
            std::string::npos);
  EXPECT_EQ(file_kind(write("floats.npy", npy("<f4", "(1, 1, 1)", std::string(4, '\0')))), FileKind::tensors);
}

}  // namespace
}  // namespace moescope
