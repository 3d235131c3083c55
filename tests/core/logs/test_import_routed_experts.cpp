// Routed experts in the documented formats of vLLM, SGLang and verl, written here: the engines themselves are not run.
// NumPy itself wrote the .npy files that test_tensor_files.cpp reads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>

#include "core/files/tensors/safetensors.h"
#include "core/files/text/text_escape.h"
#include "core/logs/file_kind.h"
#include "core/logs/log_exports.h"
#include "core/logs/log_readers.h"
#include "core/logs/open_runs.h"
#include "core/logs/routing/routed_tokens.h"
#include "tests/support/problem_of.h"
#include "tests/support/says.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr int kLayers = 4, kTopK = 2, kExperts = 8;

// Returns ids [tokens, layers, K] as engines write them; layer 0 is dense.
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
  static void expect_loads(const std::string& path, const std::vector<std::vector<int>>& sequences,
                           const RoutedShape& stated = {}) {
    EXPECT_EQ(file_kind(path), FileKind::routed_experts);
    ImportOptions options;
    options.routed = stated;
    const OpenedRuns opened = open_runs({path}, options, 4);
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

TEST_F(RoutedExperts, ResponsesOfVllmAreRead) {
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
  expect_loads(write("list.json", "[" + response(a) + ",\n" + response(b) + "]"), {a, b});
}

TEST_F(RoutedExperts, ArraysOfVllmAreRead) {
  const auto ids = routes(40, 3);
  expect_loads(write("routed_experts.npy", npy("|u1", "(40, 4, 2)", bytes_of<std::uint8_t>(ids))), {ids});
}

// The array could be a picture with three color values for each pixel.
TEST_F(RoutedExperts, AnExpertTwiceForATokenIsRefusedWithItsPlace) {
  const std::string path =
      write("routed_experts.npy", npy("|u1", "(2, 2, 3)", std::string("\1\2\3\4\5\6\7\7\7\2\3\2", 12)));
  const std::string problem = problem_of([&] { import_routed_experts(path); });
  EXPECT_NE(problem.find("sequence 0, token 1, layer 1 has expert 2 twice"), std::string::npos) << problem;
}

TEST_F(RoutedExperts, OtherTensorsOfWholeNumbersBesideThemAreNone) {
  SafetensorsWriter writer;
  const std::vector<std::int64_t> positions(2 * 3 * 5, 1);
  const auto ids = routes(40, 3);
  writer.add("position_ids", DType::i64, {2, 3, 5}, std::as_bytes(std::span(positions)));
  writer.add("routed_experts", DType::i32, {1, 40, kLayers, kTopK}, std::as_bytes(std::span(ids)));
  const std::string path = (folder / "batch_routed_experts.safetensors").string();
  writer.write(path);
  expect_loads(path, {ids});
}

TEST_F(RoutedExperts, ResponsesOfSglangAreRead) {
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
  expect_loads(write("openai.jsonl", openai), {a}, {.layers = kLayers, .top_k = kTopK});
}

// Returns the message with which `import_routed_experts` refuses a file.
template <typename Error = std::runtime_error>
std::string refusal(const std::string& path, const RoutedShape& stated = {}) {
  ImportOptions options;
  options.routed = stated;
  try {
    import_routed_experts(path, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string flat_response(const std::vector<int>& ids, int prompt, int completion) {
  return "{\"meta_info\": {\"routed_experts\": \"" + base64_of(bytes_of<std::int32_t>(ids)) +
         "\", \"prompt_tokens\": " + std::to_string(prompt) + ", \"completion_tokens\": " + std::to_string(completion) +
         "}}\n";
}

TEST_F(RoutedExperts, AFlatArrayOfOneLengthIsNotGuessed) {
  const auto all = routes(40, 9);
  const std::vector<int> later(all.begin() + 20 * kLayers * kTopK, all.end());  // routed_experts_start_len is 20
  for (const auto& ids : {all, later}) {
    const std::string path = write("flat.jsonl", flat_response(ids, 20, 21));
    const std::string problem = refusal<AmbiguousRouting>(path);
    EXPECT_NE(problem.find("--layers"), std::string::npos) << problem;
    EXPECT_NE(problem.find("--top-k"), std::string::npos) << problem;
    expect_loads(path, {ids}, {.layers = kLayers, .top_k = kTopK});
  }
}

// Under another name the first axis may be that of the tokens or of the layers.
TEST_F(RoutedExperts, TheOrderOfTheAxesIsAskedForUnlessTheNameTellsIt) {
  const auto ids = routes(40, 3);
  std::vector<int> by_layer(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i)
    by_layer[(i / kTopK % kLayers * 40 + i / kTopK / kLayers) * kTopK + i % kTopK] = ids[i];
  const std::string tokens_first = write("r.npy", npy("<i4", "(40, 4, 2)", bytes_of<std::int32_t>(ids)));
  const std::string layers_first = write("topk_ids.npy", npy("<i4", "(4, 40, 2)", bytes_of<std::int32_t>(by_layer)));
  for (const std::string& path : {tokens_first, layers_first}) {
    const std::string message = refusal<AmbiguousRouting>(path);
    EXPECT_NE(message.find("(--layers 4)"), std::string::npos) << message;
    EXPECT_NE(message.find("(--layers 40)"), std::string::npos) << message;
    expect_loads(path, {ids}, {.layers = kLayers});
  }
  const std::string one_layer = write("selected_experts.npy", npy("<i4", "(160, 2)", bytes_of<std::int32_t>(ids)));
  EXPECT_EQ(file_kind(one_layer), FileKind::routed_experts);
  ImportOptions options;
  options.routed.top_k = kTopK;
  EXPECT_EQ(import_routed_experts(one_layer, options).runs.at(0)->info().moe_layers, (std::vector<int>{0}));
}

// Layers without an array, as the dense layer 0, are left out.
TEST_F(RoutedExperts, ArraysOfOneLayerEachAreReadTogether) {
  const auto ids = routes(40, 3);
  std::string header = "{", data;
  for (int layer = 1; layer < kLayers; ++layer) {
    std::vector<int> layer_ids;
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (static_cast<int>(i / kTopK % kLayers) == layer) layer_ids.push_back(ids[i]);
    const std::string begin = std::to_string(data.size());
    data += bytes_of<std::uint8_t>(layer_ids);
    header += (layer > 1 ? ",\"model.layers." : "\"model.layers.") + std::to_string(layer) +
              ".mlp.topk_ids\":{\"dtype\":\"U8\",\"shape\":[40,2],\"data_offsets\":[" + begin + ',' +
              std::to_string(data.size()) + "]}";
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  const std::string size = {static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  const std::string path = write("dump.safetensors", size + std::string(6, '\0') + header + data);
  expect_loads(path, {ids});
  EXPECT_TRUE(says(account_text(open_runs({path}, {}, 1).accounts.at(0)), "MoE layers: 3"));
}

// Two fused shared experts: every token's list ends with two slots that hold the value of an unused slot.
TEST_F(RoutedExperts, SlotsFilledWith255HoldNoExpert) {
  const auto ids = routes(40, 10);
  std::vector<int> fused;
  for (std::size_t i = 0; i < ids.size(); i += kTopK) {
    const bool dense = ids[i] == ids[i + 1];
    fused.insert(fused.end(), {ids[i], ids[i + 1], dense ? 0 : 255, dense ? 0 : 255});
  }
  expect_loads(write("fused_routed_experts.npy", npy("<i4", "(40, 4, 4)", bytes_of<std::int32_t>(fused))), {ids});
  expect_loads(write("fused.jsonl", flat_response(fused, 20, 21)), {ids}, {.layers = kLayers, .top_k = 4});
  // One such slot could hold an expert.
  std::vector<int> one;
  for (std::size_t i = 0; i < ids.size(); i += kTopK)
    one.insert(one.end(), {ids[i], ids[i + 1], ids[i] == ids[i + 1] ? 0 : 255});
  const std::string path = write("one_routed_experts.npy", npy("<i4", "(40, 4, 3)", bytes_of<std::int32_t>(one)));
  EXPECT_NE(refusal<AmbiguousRouting>(path).find("--experts"), std::string::npos);
  expect_loads(path, {ids}, {.experts = kExperts});
  EXPECT_NE(refusal(path, {.experts = 4}).find("--experts is 4"), std::string::npos);
  EXPECT_NE(refusal(path, {.top_k = 2}).find("has 3 experts a token, but --top-k is 2"), std::string::npos);
}

TEST_F(RoutedExperts, NegativeSlotsAreSentNowhere) {
  const std::vector<int> ids{0, 1, 2, -1, -1, -1, 3, 7, -1, 3, 4, 5};
  const std::string path = write("routed_experts.npy", npy("<i4", "(6, 1, 2)", bytes_of<std::int32_t>(ids)));
  const Imported imported = import_routed_experts(path);
  const auto frame = imported.runs.at(0)->frame_at(0);
  EXPECT_EQ(frame->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{1, 1, 1, 2, 1, 1, 0, 1}));
  EXPECT_EQ(imported.runs[0]->info().top_k, 2);
  bool is_marked = false;
  for (const Marker& marker : imported.runs[0]->markers())
    is_marked |= marker.text.find("4 of 12 slots have no expert") != std::string::npos;
  EXPECT_TRUE(is_marked);
}

TEST_F(RoutedExperts, NegativeSlotsOfARouterTraceAreSentNowhere) {
  const std::string path = write("router_trace_rank0.jsonl",
                                 "{\"step\":3,\"layer\":1,\"rank\":0,\"num_tokens\":4,\"topk\":2,\"top_indices\":"
                                 "[[2,-1],[0,1],[-1,-1],[3,1]]}\n");
  const Imported imported = import_trace(path);
  EXPECT_EQ(imported.bad.count(), 0) << imported.bad.text();
  EXPECT_EQ(imported.runs.at(0)->frame_at(3)->routers.at(0).tokens_per_expert,
            (std::vector<std::uint32_t>{1, 2, 1, 1}));
  EXPECT_EQ(imported.runs[0]->markers().at(0).text, "3 of 8 slots have no expert and are sent nowhere");
  ASSERT_TRUE(imported.routes);
  EXPECT_EQ(imported.routes->top_k, 2u);
}

TEST_F(RoutedExperts, AThousandTimesTheBytesOfTheFileAreRefused) {
  std::vector<int> ids(100'000);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = 60'000 + static_cast<int>(i % 5000);
  const std::string path = write("routed_experts.npy", npy("<i4", "(100000, 1, 1, 1)", bytes_of<std::int32_t>(ids)));
  EXPECT_NE(
      refusal(path).find("1 layers of 65000 experts in 100000 steps, but only 100000 entries: is a number wrong?"),
      std::string::npos)
      << refusal(path);
}

TEST_F(RoutedExperts, BatchesOfVerlAreRead) {
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
  const OpenedRuns opened =
      open_runs({file("train_routed_experts.npy", a), file("infer_routed_experts.npy", b)}, {}, 4);
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

TEST_F(RoutedExperts, ThoseOfARecordedTextAreReadBack) {
  constexpr int kTokens = 40;
  const std::vector<int> ids = routes(kTokens, 3);  // layer 0 is dense
  RunInfo info;
  info.n_layers = kLayers;
  History run(info);
  TelemetryFrame frame;
  frame.step = 7;
  TokenFrame& text = frame.texts.emplace_back();
  text.text = std::string(kTokens, 'a');
  text.loss_T.assign(kTokens, 1);
  for (int layer = 1; layer < kLayers; ++layer) {
    TokenLayer& routed = text.layers.emplace_back();
    routed.layer = layer;
    routed.top_k = kTopK;
    for (int token = 0; token < kTokens; ++token)
      for (int slot = 0; slot < kTopK; ++slot)
        routed.experts_TK.push_back(static_cast<std::uint16_t>(ids[(token * kLayers + layer) * kTopK + slot]));
    routed.scores_TK.assign(kTokens * kTopK, 0.5f);
    routed.margin_T.assign(kTokens, 0.1f);
  }
  run.append(std::make_shared<const TelemetryFrame>(frame));
  const RoutedText exported = routed_text(run, 9);
  EXPECT_EQ(exported.step, 7);
  EXPECT_EQ(exported.npy, npy("<i4", "(40, 4, 2)", bytes_of<std::int32_t>(ids))) << "as NumPy writes it";
  EXPECT_THROW(routed_text(History(info), 9), std::runtime_error);
  EXPECT_THROW(routed_text(run, 6), std::runtime_error) << "before the text";
}

TEST_F(RoutedExperts, ShiftsAgainstTheFirstTraceAreSaid) {
  constexpr int kTokens = 200;
  const std::vector<int> ids = routes(kTokens, 5);
  const auto row_size = static_cast<std::ptrdiff_t>(kLayers * kTopK);
  const auto file_of = [&](const std::string& name, std::vector<int> shifted) {
    shifted.resize(ids.size());
    return write(name, npy("<i4", "(200, 4, 2)", bytes_of<std::int32_t>(shifted)));
  };
  const std::string first = file_of("routed_experts_a.npy", ids);
  const auto remarks_of = [&](const std::vector<int>& other) {
    std::string text;
    for (const std::string& remark : open_runs({first, file_of("routed_experts_b.npy", other)}, {}, 5).remarks)
      text += remark + "\n";
    return text;
  };
  EXPECT_EQ(remarks_of(ids), "");
  EXPECT_EQ(remarks_of(routes(kTokens, 6)), "") << "another text fits nowhere";
  std::vector<int> later(ids.end() - row_size, ids.end());
  later.insert(later.end(), ids.begin(), ids.end() - row_size);
  EXPECT_NE(remarks_of(later).find("its rows are 1 token later. 100 %"), std::string::npos) << remarks_of(later);
  const std::vector<int> earlier(ids.begin() + 3 * row_size, ids.end());
  EXPECT_NE(remarks_of(earlier).find("its rows are 3 tokens earlier. 100 %"), std::string::npos) << remarks_of(earlier);
  std::vector<int> a_third_differs = later;
  const std::vector<int> noise = routes(kTokens, 7);
  for (std::size_t i = 0; i < noise.size(); ++i)
    if (i / static_cast<std::size_t>(row_size) % 3 == 0) a_third_differs[i] = noise[i];
  EXPECT_NE(remarks_of(a_third_differs).find("1 token later"), std::string::npos);
}

TEST_F(RoutedExperts, PaddingOnTheLeftIsSaid) {
  std::vector<int> ids(12 * kLayers * kTopK, 0);
  const std::vector<int> text = routes(50, 5);
  ids.insert(ids.end(), text.begin(), text.end());
  const auto opened =
      open_runs({write("routed_experts.npy", npy("<i4", "(62, 4, 2)", bytes_of<std::int32_t>(ids)))}, {}, 1);
  ASSERT_FALSE(opened.remarks.empty());
  EXPECT_NE(opened.remarks[0].find("1 of 1 sequences begin with tokens without experts, at most 12"), std::string::npos)
      << opened.remarks[0];
}

TEST_F(RoutedExperts, UnreadableArraysAreRefusedWithTheReason) {
  const auto problem = [&](const std::string& path) -> std::string {
    try {
      import_routed_experts(path);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  const std::string several =
      problem(write("bad.json",
                    "{\"routed_experts\": \"AAAA\"}\n{\"routed_experts\": \"?\"}\n{\"routed_experts\": 3}\n"
                    "{\"routed_experts\": [[[1, 2]], [[1]]]}\n{\"routed_experts\": [[[-2, 1]]]}\n[1]\n"));
  EXPECT_NE(several.find("6 lines could not be read"), std::string::npos) << several;
  EXPECT_NE(several.find("not an array of int32"), std::string::npos) << several;
  EXPECT_NE(problem(write("b.json", "{\"routed_experts\": \"?\"}")).find("not base64"), std::string::npos);
  EXPECT_NE(problem(write("a.json", "{\"routed_experts\": null}")).find("holds no routed_experts"), std::string::npos);
  const std::vector<int> zeros(8);
  EXPECT_NE(problem(write("z.npy", npy("|u1", "(1, 4, 2)", bytes_of<std::uint8_t>(zeros)))).find("no routing"),
            std::string::npos);
  EXPECT_EQ(file_kind(write("floats.npy", npy("<f4", "(1, 1, 1)", std::string(4, '\0')))), FileKind::tensors);
}

TEST_F(RoutedExperts, ArraysOfOneAndTwoDimensionsAreReadAsStated) {
  const std::vector<int> ids = routes(40, 8);
  const std::string bytes = bytes_of<std::int32_t>(ids);
  const std::string flat = write("a_routed_experts.npy", npy("<i4", "(320,)", bytes));
  const std::string rows = write("b_routed_experts.npy", npy("<i4", "(40, 8)", bytes));
  EXPECT_THROW(import_routed_experts(flat), AmbiguousRouting);
  ImportOptions options;
  options.routed.layers = 4;
  EXPECT_THROW(import_routed_experts(flat, options), AmbiguousRouting);
  EXPECT_EQ(import_routed_experts(rows, options).runs.at(0)->info().top_k, 2) << "40 tokens say it";
  options.routed.top_k = 2;
  for (const std::string& path : {flat, rows}) {
    ASSERT_EQ(file_kind(path), FileKind::routed_experts);
    EXPECT_EQ(import_routed_experts(path, options).runs.at(0)->frame_at(0)->routers.at(0).tokens_per_expert,
              counted(ids, 1));
  }
  options.routed.layers = 2;
  EXPECT_NE(problem_of([&] { import_routed_experts(rows, options); }).find("has 8 numbers a token"), std::string::npos);
  EXPECT_EQ(file_kind(write("other.npy", npy("<i4", "(40, 8)", bytes))), FileKind::tensors);
}

TEST_F(RoutedExperts, TheNameMayStandInTheFileAlone) {
  const auto file = [&](const std::string& dtype) {
    std::string header = R"({"routed_experts":{"dtype":")" + dtype + R"(","shape":[40,4,2],"data_offsets":[0,1280]}})";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = header.size();
    return write("batch.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) + header +
                                          bytes_of<std::int32_t>(routes(40, 8)));
  };
  EXPECT_EQ(file_kind(file("I32")), FileKind::routed_experts);
  EXPECT_EQ(file_kind(file("F32")), FileKind::tensors) << "weights of experts";
}

TEST_F(RoutedExperts, DenseLayersOfATop1ModelAreNoCollapse) {
  std::vector<int> ids;
  for (int token = 0; token < 24; ++token) ids.insert(ids.end(), {0, token % 8, 0, (token + 3) % 8});
  const std::string path = write("top1_routed_experts.npy", npy("<i4", "(24, 4, 1)", bytes_of<std::int32_t>(ids)));
  const Imported imported = import_routed_experts(path);
  const History& history = *imported.runs.at(0);
  EXPECT_EQ(history.info().moe_layers, (std::vector<int>{1, 3}));
  EXPECT_EQ(history.frame_at(0)->routers.at(0).tokens_per_expert, std::vector<std::uint32_t>(8, 3));
  EXPECT_TRUE(std::ranges::any_of(history.markers(), [](const Marker& marker) {
    return marker.text ==
           "Layers where every token has expert 0 are left out, because dense layers are stored as zeros: 0, 2";
  }));
}

}  // namespace
}  // namespace moescope
