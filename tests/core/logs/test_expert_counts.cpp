// Dumps of expert statistics in the documented forms of SGLang, vLLM, TensorRT-LLM, Megatron-LM, llama.cpp and
// transformers, written here: the programs themselves are not run.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <span>
#include <string_view>

#include "core/files/tensors/open_tensors.h"
#include "core/files/tensors/safetensors.h"
#include "core/logs/account.h"
#include "core/logs/dumps/dump_readers.h"
#include "core/logs/file_kind.h"
#include "core/logs/log_readers.h"
#include "core/logs/open_runs.h"
#include "tests/support/problem_of.h"
#include "tests/support/says.h"
#include "tests/support/test_folder.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;
using Counts = std::vector<std::uint32_t>;
using Shape = std::vector<std::size_t>;

template <class Number>
std::string bytes_in(const std::vector<Number>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number)};
}

std::string npy_of(const std::string& descr, const std::string& shape, const std::string& data) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.append(63 - (header.size() + 10) % 64, ' ').append("\n");
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 255) +
         static_cast<char>(header.size() >> 8) + header + data;
}

class ExpertCountDumps : public testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& bytes) const {
    const std::string path = folder_ / name;
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  struct Tensor {
    std::string name;
    Shape shape;
    std::vector<std::int64_t> values;
  };
  std::string put_tensors(const std::string& name, const std::vector<Tensor>& tensors) const {
    SafetensorsWriter writer;
    for (const Tensor& tensor : tensors)
      writer.add(tensor.name, DType::i64, tensor.shape, std::as_bytes(std::span(tensor.values)));
    fs::create_directories(fs::path(folder_ / name).parent_path());
    writer.write(folder_ / name);
    return folder_ / name;
  }
  static Imported read(const std::string& path, const RoutedShape& stated = {}) {
    EXPECT_EQ(file_kind(path), FileKind::expert_counts) << path;
    ImportOptions options;
    options.routed = stated;
    return import_log(path, FileKind::expert_counts, options);
  }
  static std::string refused(const std::string& path, const RoutedShape& stated = {}) {
    return problem_of([&] { read(path, stated); });
  }
  static Counts counts_of(const Imported& imported, std::int64_t step, int layer, std::size_t run = 0) {
    const auto frame = imported.runs.at(run)->frame_at(step);
    const RouterFrame* router = frame && frame->step == step ? find_router(frame.get(), layer) : nullptr;
    return router ? router->tokens_per_expert : Counts();
  }
  static std::string all_remarks(const Imported& imported) {
    std::string all;
    for (const std::string& remark : imported.remarks) all += remark + "\n";
    return all;
  }
  TestFolder folder_{"expert_counts"};
};

TEST_F(ExpertCountDumps, SglangHasPassesLayersAndExperts) {
  // Layer 0 is dense, and the last pass of the buffer was not recorded.
  const std::string path = put_tensors("expert_distribution_recorder_1767225600.25.safetensors",
                                       {{"logical_count", {3, 2, 4}, {0, 0, 0, 0, 5, 1, 1, 1,  //
                                                                      0, 0, 0, 0, 2, 2, 2, 2,  //
                                                                      0, 0, 0, 0, 0, 0, 0, 0}}});
  const Imported imported = read(path, {.top_k = 2});
  ASSERT_EQ(imported.runs.size(), 1u);
  const RunInfo& info = imported.runs[0]->info();
  EXPECT_EQ(info.moe_layers, std::vector<int>{1});
  EXPECT_EQ(info.n_experts, 4);
  EXPECT_EQ(info.top_k, 2);
  EXPECT_EQ(imported.runs[0]->count(), 2);
  EXPECT_EQ(counts_of(imported, 0, 1), (Counts{5, 1, 1, 1}));
  EXPECT_EQ(counts_of(imported, 1, 1), (Counts{2, 2, 2, 2}));
  EXPECT_EQ(imported.runs[0]->frame_at(1)->tokens, 8);
  const std::string remarks = all_remarks(imported);
  EXPECT_TRUE(says(remarks, "2 totals of counts of experts, 8 tokens")) << remarks;
  EXPECT_TRUE(says(remarks, "left out as dense, because no expert has a token: layer 0")) << remarks;
  EXPECT_TRUE(says(remarks, "1 step without a token left out")) << remarks;
  EXPECT_TRUE(says(remarks, "read as counts by steps, layers, experts")) << remarks;
  const ImportAccount& account = imported.account;
  ASSERT_EQ(account.rows.size(), 1u);
  EXPECT_EQ(account.rows[0].name, "logical_count");
  EXPECT_EQ(account.rows[0].certainty, Certainty::known_name);
  EXPECT_EQ(account.rows[0].highest, 5);
  EXPECT_EQ(account.experts.value, "4");
}

TEST_F(ExpertCountDumps, SglangWithARunningSumHasLayersAndExperts) {
  const Imported imported = read(put_tensors("dump.safetensors", {{"logical_count", {2, 3}, {1, 2, 3, 4, 5, 6}}}));
  EXPECT_EQ(counts_of(imported, 0, 0), (Counts{1, 2, 3}));
  EXPECT_EQ(counts_of(imported, 0, 1), (Counts{4, 5, 6}));
  EXPECT_TRUE(says(all_remarks(imported), "--top-k states it"));
}

TEST_F(ExpertCountDumps, CopiesOfExpertsAreSummed) {
  const std::string path =
      put_tensors("recorder.safetensors", {{"records.0.global_physical_count", {2, 3}, {1, 2, 3, 4, 5, 6}},
                                           {"records.10.global_physical_count", {2, 3}, {7, 7, 7, 7, 7, 7}},
                                           {"last_physical_to_logical_map", {2, 3}, {0, 1, 0, 1, 0, 1}}});
  const Imported imported = read(path);
  EXPECT_EQ(imported.runs[0]->info().n_experts, 2);
  EXPECT_EQ(counts_of(imported, 0, 0), (Counts{4, 2}));
  EXPECT_EQ(counts_of(imported, 0, 1), (Counts{5, 10}));
  EXPECT_EQ(counts_of(imported, 10, 1), (Counts{7, 14}));
  EXPECT_TRUE(says(all_remarks(imported), "copies of experts are summed"));
}

TEST_F(ExpertCountDumps, RowsThatMayBeLayersOrStepsAreAskedFor) {
  const std::string data = bytes_in(std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8});
  const std::string path = put("expert_counts.npy", npy_of("<i8", "(4, 2)", data));
  EXPECT_TRUE(says(refused(path), "may be 4 layers of one total (--layers 4) or 4 steps of one layer (--layers 1)"))
      << refused(path);
  EXPECT_THROW(read(path), AmbiguousRouting);
  EXPECT_EQ(counts_of(read(path, {.layers = 4}), 0, 3), (Counts{7, 8}));
  EXPECT_EQ(counts_of(read(path, {.layers = 1}), 3, 0), (Counts{7, 8}));
  EXPECT_EQ(counts_of(read(path, {.layers = 2}), 1, 1), (Counts{7, 8}));
  EXPECT_TRUE(says(refused(path, {.layers = 3}), "has 4 rows, which is no multiple of --layers 3"));
  EXPECT_TRUE(says(refused(path, {.layers = 4, .experts = 1}), "--experts 1, but the log has loads of 2 experts"));
  EXPECT_EQ(read(path, {.layers = 4, .experts = 5}).runs[0]->info().n_experts, 5);
}

TEST_F(ExpertCountDumps, AnArrayOfOneLayerAndAnArrayOfAllAreRead) {
  const std::string data = bytes_in(std::vector<float>{3, 0, 5});
  EXPECT_EQ(counts_of(read(put("expert_usage.npy", npy_of("<f4", "(3,)", data))), 0, 0), (Counts{3, 0, 5}));
  EXPECT_EQ(counts_of(read(put("moe_load.npy", npy_of("<f4", "(1, 1, 3)", data))), 0, 0), (Counts{3, 0, 5}));
  const Imported steps_last = read(put("loads_of_experts.npy", npy_of("<f4", "(3, 1, 1)", data)), {.layers = 3});
  EXPECT_EQ(counts_of(steps_last, 0, 2), Counts{5});
}

TEST_F(ExpertCountDumps, LayersInTheNamesAreTheLayers) {
  const Imported imported =
      read(put_tensors("counts.safetensors", {{"model.layers.3.mlp.tokens_per_expert", {2}, {1, 2}},
                                              {"model.layers.10.mlp.tokens_per_expert", {2}, {3, 4}}}));
  EXPECT_EQ(imported.runs[0]->info().moe_layers, (std::vector<int>{3, 10}));
  EXPECT_EQ(counts_of(imported, 0, 10), (Counts{3, 4}));
}

TEST_F(ExpertCountDumps, SeveralNamesAreSeveralRuns) {
  const Imported imported = read(put_tensors("d.safetensors", {{"layer_0.prefill_expert_counts", {2}, {1, 2}},
                                                               {"layer_0.decode_expert_counts", {2}, {3, 4}}}));
  ASSERT_EQ(imported.runs.size(), 2u);
  EXPECT_EQ(counts_of(imported, 0, 0, 0), (Counts{3, 4}));
  EXPECT_EQ(counts_of(imported, 0, 0, 1), (Counts{1, 2}));
}

TEST_F(ExpertCountDumps, CountsAmongWeightsAreTensors) {
  const std::string path = put_tensors("model.safetensors", {{"layers.1.moe.tokens_per_expert", {2}, {1, 2}},
                                                             {"layers.1.moe.router.gate.weight", {2}, {3, 4}}});
  EXPECT_EQ(file_kind(path), FileKind::tensors);
}

TEST_F(ExpertCountDumps, ValuesThatAreNoCountsAreRefused) {
  const auto refusal_of = [&](std::int64_t value) {
    return refused(put_tensors("expert_counts.safetensors", {{"expert_counts", {3}, {1, value, 5}}}));
  };
  EXPECT_TRUE(says(refusal_of(-1), "'expert_counts', expert 1, is -1, expected a number of tokens")) << refusal_of(-1);
  EXPECT_TRUE(says(refusal_of(std::int64_t{1} << 33), "more than 4,294,967,295 tokens of an expert cannot be shown"));
  const std::string zeros = put_tensors("expert_counts.safetensors", {{"expert_counts", {2}, {0, 0}}});
  EXPECT_TRUE(says(refused(zeros), "all counts of experts are 0"));
  const std::string shares = put("expert_load.npy", npy_of("<f8", "(2,)", bytes_in(std::vector<double>{0.25, 0.75})));
  EXPECT_TRUE(says(refused(shares), "a share does not tell of how many tokens"));
}

TEST_F(ExpertCountDumps, JsonByLayerAndExpertIsRead) {
  const std::string path = put("stats.json", R"({
    "num_experts": 6, "top_k": 2,
    "expert_counts": {"layer_0": {"3": 40, "0": 36}, "layer_4": {"1": 70, "2": 6}}
  })");
  const Imported imported = read(path);
  const RunInfo& info = imported.runs[0]->info();
  EXPECT_EQ(info.n_experts, 6);
  EXPECT_EQ(info.top_k, 2);
  EXPECT_EQ(counts_of(imported, 0, 0), (Counts{36, 0, 0, 40, 0, 0}));
  EXPECT_EQ(counts_of(imported, 0, 4), (Counts{0, 70, 6, 0, 0, 0}));
}

TEST_F(ExpertCountDumps, JsonOfListsIsRead) {
  const Imported imported = read(put("expert_counts.json", R"({"layer_1": [1, 2, 3],
    "layer_2": [4, 5, 6]})"));
  EXPECT_EQ(counts_of(imported, 0, 2), (Counts{4, 5, 6}));
  const std::string path = put("expert_counts.json", "[[1, 2, 3],\n [4, 5, 6]]");
  EXPECT_EQ(counts_of(read(path, {.layers = 2}), 0, 1), (Counts{4, 5, 6}));
  EXPECT_EQ(file_kind(put("expert_counts.json", "[[1, 2, 3],\n [4, 5]]")), FileKind::unread);
  EXPECT_EQ(file_kind(put("config.json", "{\n\"num_experts\": 8, \"num_experts_per_tok\": 2}")), FileKind::unread);
}

TEST_F(ExpertCountDumps, TablesWithAColumnForEachExpertAreRead) {
  const std::string by_layer = put("a.csv", "layer,e0,e1,e2\n3,1,2,3\n5,4,5,6\n");
  EXPECT_EQ(counts_of(read(by_layer), 0, 5), (Counts{4, 5, 6}));
  const std::string saved = put("tokens_per_expert.csv", "1.0e+00 2.0e+00 3.0e+00\n4.0e+00 5.0e+00 6.0e+00\n");
  EXPECT_EQ(counts_of(read(saved, {.layers = 2}), 0, 1), (Counts{4, 5, 6}));
  EXPECT_THROW(import_expert_counts(saved), AmbiguousRouting);
  const std::string header = put("b.csv", "expert_0,expert_1,expert_2\n1,2,3\n4,5,6\n");
  EXPECT_EQ(counts_of(read(header, {.layers = 1}), 1, 0), (Counts{4, 5, 6}));
  for (const char* other : {"layer,e0,e1\n3,1\n", "layer,e0,e2\n3,1,2\n", "e0,e1\n1,x\n"})
    EXPECT_EQ(file_kind(put("other.csv", other)), FileKind::unread) << other;
  EXPECT_EQ(file_kind(put("tokens_per_expert.csv", "0,1,2,30\n0,1,3,40\n")), FileKind::load_table);
}

TEST_F(ExpertCountDumps, SumsBesideTheExpertsOfATableAreLeftOut) {
  const Imported imported =
      read(put("a.csv", "total,layer,expert_0,expert_1,max\n3,3,1,2,2\n9,5,4,5,5\n12,total,5,7,7\n"));
  EXPECT_EQ(imported.runs[0]->info().moe_layers, (std::vector<int>{3, 5}));
  EXPECT_EQ(counts_of(imported, 0, 5), (Counts{4, 5}));
  EXPECT_TRUE(says(account_text(imported.account), "total: 2 values, 3 to 9"));
  const std::string path = put("a.csv", "tick,layer,expert_0,expert_1\n0,1,1,2\n1,1,1,2\n");
  EXPECT_EQ(file_kind(path), FileKind::unread) << "steps that are not known are not added";
}

TEST_F(ExpertCountDumps, ListedStepsNumberTheCounts) {
  const Tensor counts{"expert_counts", {3, 2}, {1, 2, 3, 4, 5, 6}};
  const Imported imported = read(put_tensors("a.safetensors", {counts, {"steps", {3}, {0, 50, 100}}}));
  EXPECT_EQ(counts_of(imported, 50, 0), (Counts{3, 4}));
  EXPECT_TRUE(says(imported.remarks.back(), "the steps are those of 'steps'"));
  const Imported layer_run = read(put_tensors("a.safetensors", {counts, {"steps", {2}, {0, 50}}}), {.layers = 3});
  EXPECT_EQ(layer_run.runs[0]->steps().last, 0);
  EXPECT_TRUE(says(account_text(layer_run.account), "steps: 2 values")) << "they are left out";
}

TEST_F(ExpertCountDumps, MasksMarkTheExpertsOfTokens) {
  const std::string path =
      put_tensors("a.safetensors", {{"layers.3.routing_map", {3, 4}, {1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 0}}});
  ASSERT_EQ(file_kind(path), FileKind::expert_counts);
  const Imported imported = read(path);
  EXPECT_EQ(imported.runs[0]->info().top_k, 2);
  EXPECT_EQ(counts_of(imported, 0, 3), (Counts{1, 1, 1, 2})) << "a token has one expert";
  EXPECT_EQ(file_kind(put_tensors("b.safetensors", {{"routing_map", {1, 3}, {1, 0, 2}}})), FileKind::tensors);
}

TEST_F(ExpertCountDumps, JsonOfRecordsIsReadByTheNumbersInThem) {
  const std::string lists = put("stats.json", R"({"layers": [{"layer_id": 3, "expert_counts": [1, 2]},
    {"layer_id": 5, "expert_counts": [3, 4]}]})");
  EXPECT_EQ(counts_of(read(lists), 0, 5), (Counts{3, 4}));
  const std::string records = put("stats.json", R"([{"step": 7, "layer": 2, "expert": 0, "token_count": 9},
    {"step": 7, "layer": 2, "expert": 3, "token_count": 4}])");
  EXPECT_EQ(counts_of(read(records), 7, 2), (Counts{9, 0, 0, 4}));
}

TEST_F(ExpertCountDumps, TensorRtLlmSumsItsRanks) {
  put_tensors("trt/rank0.safetensors", {{"50_3", {2}, {1, 2}}, {"51_3", {2}, {3, 4}}});
  put_tensors("trt/rank1.safetensors", {{"50_3", {2}, {10, 20}}, {"51_3", {2}, {30, 40}}});
  put("trt/meta_info.json", R"({"num_experts": 2, "num_experts_per_token": 1})");
  const Imported imported = read(folder_ / "trt");
  EXPECT_EQ(counts_of(imported, 50, 3), (Counts{11, 22}));
  EXPECT_EQ(counts_of(imported, 51, 3), (Counts{33, 44}));
  EXPECT_EQ(imported.runs[0]->info().top_k, 1);
  put_tensors("trt/rank1.safetensors", {{"50_3", {2}, {1, 2}}, {"51_3", {2}, {3, 4}}});
  EXPECT_EQ(imported.runs.size(), 1u);
  const Imported copies = read(folder_ / "trt");
  EXPECT_EQ(counts_of(copies, 50, 3), (Counts{1, 2}));
  EXPECT_TRUE(says(all_remarks(copies), "all ranks counted the same tokens"));
}

// Writes files of Megatron-LM for ranks with two experts each. `counts`: by rank, for one layer.
class RankCountDumps : public ExpertCountDumps {
 protected:
  void put_rank(int rank, const std::string& lines) const {
    put("tokens_per_expert/rank" + std::to_string(rank) + ".jsonl", lines);
  }
  static std::string line(int iteration, const std::string& counts, int layer = 1) {
    return "{\"iter\": " + std::to_string(iteration) + ", \"block\": \"decoder\", \"layer\": " + std::to_string(layer) +
           ", \"tpe\": " + counts + "}\n";
  }
};

TEST_F(RankCountDumps, RanksHoldPartsOfTheExperts) {
  put_rank(0, line(100, "[[1, 2], [10, 20]]") + line(200, "[[5, 1], [6, 10]]"));
  put_rank(1, line(100, "[[3, 104], [5, 75]]") + line(200, "[[2, 102], [60, 34]]"));
  EXPECT_TRUE(holds_rank_counts(folder_ / "tokens_per_expert"));
  EXPECT_FALSE(holds_rank_counts(folder_ / "."));
  EXPECT_TRUE(is_rank_counts_line(line(100, "[[1, 2]]")));
  EXPECT_FALSE(is_rank_counts_line(R"({"iter": 100, "loss": 3})"));
  EXPECT_EQ(file_kind(folder_ / "tokens_per_expert"), FileKind::expert_counts);
  const Imported imported = import_rank_counts(folder_ / "tokens_per_expert", {});
  EXPECT_EQ(imported.runs[0]->info().n_experts, 4);
  EXPECT_EQ(counts_of(imported, 100, 1), (Counts{11, 22, 8, 179}));
  EXPECT_EQ(counts_of(imported, 200, 1), (Counts{11, 11, 62, 136}));
}

TEST_F(RankCountDumps, GroupsOfRanksWithAllExpertsAreSummed) {  // each group of two ranks has 10 counts a microbatch
  put_rank(0, line(100, "[[1, 2], [4, 4]]"));
  put_rank(1, line(100, "[[3, 4], [1, 1]]"));
  put_rank(2, line(100, "[[2, 2], [3, 0]]"));
  put_rank(3, line(100, "[[1, 5], [7, 0]]"));
  const Imported imported = read(folder_ / "tokens_per_expert");
  EXPECT_EQ(imported.runs[0]->info().n_experts, 4);
  EXPECT_EQ(counts_of(imported, 100, 1), (Counts{10, 8, 12, 10}));
  EXPECT_EQ(read(folder_ / "tokens_per_expert", {.experts = 8}).runs[0]->info().n_experts, 8);
  EXPECT_TRUE(says(refused(folder_ / "tokens_per_expert", {.experts = 6}), "does not fit --experts 6"));
}

TEST_F(RankCountDumps, GroupsThatTheCountsDoNotShowAreAskedFor) {
  for (int rank = 0; rank < 2; ++rank) put_rank(rank, line(100, "[[4, 4], [4, 4]]"));  // forced balance
  EXPECT_TRUE(says(refused(folder_ / "tokens_per_expert"), "--experts states the number of experts of a layer"));
  EXPECT_EQ(counts_of(read(folder_ / "tokens_per_expert", {.experts = 4}), 100, 1), (Counts{8, 8, 8, 8}));
  put_rank(0, line(100, "[[1, 2], [4, 4]]"));  // batches of different sizes
  put_rank(1, line(100, "[[3, 9], [1, 1]]"));
  EXPECT_TRUE(says(refused(folder_ / "tokens_per_expert"), "2 ranks have 2 experts each; how many of them"));
}

TEST_F(RankCountDumps, RanksOfExpertTensorParallelismAreCopies) {
  for (int rank = 0; rank < 4; ++rank) put_rank(rank, line(100, rank < 2 ? "[[1, 2], [4, 1]]" : "[[3, 4], [2, 3]]"));
  const Imported imported = read(folder_ / "tokens_per_expert");
  EXPECT_EQ(counts_of(imported, 100, 1), (Counts{5, 3, 5, 7}));
}

TEST_F(RankCountDumps, PredictionBlocksFollowTheDecoder) {
  put_rank(0, line(100, "[[1, 3]]", 2) +
                  "{\"iter\": 100, \"block\": \"mtp\", \"mtp_idx\": 0, \"layer\": 0, \"tpe\": [[2, 2]]}\n");
  const Imported imported = read(folder_ / "tokens_per_expert/rank0.jsonl");
  EXPECT_EQ(imported.runs[0]->info().moe_layers, (std::vector<int>{2, 3}));
  EXPECT_EQ(counts_of(imported, 100, 3), (Counts{2, 2}));
  EXPECT_TRUE(says(all_remarks(imported), "prediction block 0 is shown as layer 3"));
}

TEST_F(RankCountDumps, AFileOfOneOfSeveralRanksNamesItsFolder) {
  put_rank(0, line(100, "[[1, 2]]"));
  put_rank(2, line(100, "[[3, 4]]"));
  EXPECT_TRUE(says(refused(folder_ / "tokens_per_expert/rank0.jsonl"), "has the experts of one rank; open its folder"));
  EXPECT_TRUE(says(refused(folder_ / "tokens_per_expert"), "has the files of 2 ranks up to rank 2; some are missing"));
}

TEST_F(RankCountDumps, AnAbandonedAttemptAndACutLineAreLeftOut) {
  put_rank(0, line(100, "[[1, 2]]") + line(200, "[[9, 9]]") + line(300, "[[9, 8]]") + line(200, "[[5, 6]]") +
                  "{\"iter\": 300, \"block\": \"deco");
  const Imported imported = read(folder_ / "tokens_per_expert/rank0.jsonl");
  EXPECT_EQ(counts_of(imported, 200, 1), (Counts{5, 6}));
  EXPECT_EQ(imported.runs[0]->count(), 2);
  EXPECT_EQ(imported.bad.count(), 1);
}

// Bytes of GGUF, as ggml/docs/gguf.md describes them.
template <class Number>
void append(std::string& bytes, Number value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void append_text(std::string& bytes, const std::string& text) {
  append<std::uint64_t>(bytes, text.size());
  bytes += text;
}

struct GgufCounts {
  std::string name;
  std::vector<float> values;
};

std::string gguf_of(const std::string& type, const std::vector<GgufCounts>& tensors) {
  std::string bytes = "GGUF";
  append<std::uint32_t>(bytes, 3);
  append<std::uint64_t>(bytes, tensors.size());
  append<std::uint64_t>(bytes, 3);
  append_text(bytes, "imatrix.datasets");
  append<std::uint32_t>(bytes, 9);
  append<std::uint32_t>(bytes, 8);
  append<std::uint64_t>(bytes, 1);
  append_text(bytes, "wiki.txt");
  append_text(bytes, "imatrix.chunk_count");
  append<std::uint32_t>(bytes, 4);
  append<std::uint32_t>(bytes, 4);
  append_text(bytes, "general.type");
  append<std::uint32_t>(bytes, 8);
  append_text(bytes, type);
  std::string data;
  for (const GgufCounts& tensor : tensors) {
    append_text(bytes, tensor.name);
    append<std::uint32_t>(bytes, 2);
    append<std::uint64_t>(bytes, 1);
    append<std::uint64_t>(bytes, tensor.values.size());
    append<std::uint32_t>(bytes, 0);
    append<std::uint64_t>(bytes, data.size());
    data += bytes_in(tensor.values);
    data.append((32 - data.size() % 32) % 32, '\0');
  }
  bytes.append((32 - bytes.size() % 32) % 32, '\0');
  return bytes + data;
}

const std::vector<GgufCounts> kImatrix = {{"blk.0.attn_q.weight.counts", {450}},
                                          {"blk.0.ffn_gate_exps.weight.counts", {100, 90, 110, 600}},
                                          {"blk.0.ffn_down_exps.weight.counts", {100, 90, 110, 600}},
                                          {"blk.1.ffn_gate_exps.weight.counts", {225, 225, 225, 225}}};

TEST_F(ExpertCountDumps, ImatrixHasCountsOfExperts) {
  const std::string path = put("imatrix.gguf", gguf_of("imatrix", kImatrix));
  EXPECT_TRUE(begins_like_gguf(gguf_of("imatrix", kImatrix)) && is_imatrix(path));
  EXPECT_EQ(file_kind(path), FileKind::expert_counts);
  const Imported imported = import_imatrix(path, {});
  EXPECT_EQ(counts_of(imported, 0, 0), (Counts{100, 90, 110, 600}));
  EXPECT_EQ(counts_of(imported, 0, 1), (Counts{225, 225, 225, 225}));
  EXPECT_EQ(imported.runs[0]->info().top_k, 2);  // 900 counts of 450 tokens
  const std::string model = put("model.gguf", gguf_of("model", kImatrix));
  EXPECT_FALSE(is_imatrix(model));
  EXPECT_EQ(file_kind(model), FileKind::unread);
}

TEST_F(ExpertCountDumps, ADamagedImatrixIsRefused) {
  const std::string whole = gguf_of("imatrix", kImatrix);
  for (std::size_t size = 4; size + 32 < whole.size(); size += 7) {
    const std::string path = put("imatrix.gguf", whole.substr(0, size));
    const std::string problem = problem_of([&] { import_imatrix(path, {}); });
    EXPECT_TRUE(says(problem, path + ": ")) << size << ": " << problem;
  }
  std::string damaged = whole;
  for (std::size_t at = 4; at < damaged.size(); at += 3) {  // must not crash or take much memory
    damaged = whole;
    damaged[at] = '\xff';
    problem_of([&] { import_imatrix(put("imatrix.gguf", damaged), {}); });
  }
}

TEST_F(ExpertCountDumps, RouterLogitsNeedTopK) {
  SafetensorsWriter writer;
  const std::vector<float> layer_0 = {3, 1, 2, 0, 5, 4}, layer_1 = {0, 0, 9, 7, 8, 0};  // two tokens, three experts
  writer.add("router_logits.0", DType::f32, {2, 3}, std::as_bytes(std::span(layer_0)));
  writer.add("router_logits.1", DType::f32, {2, 3}, std::as_bytes(std::span(layer_1)));
  writer.write(folder_ / "outputs.safetensors");
  const std::string path = folder_ / "outputs.safetensors";
  EXPECT_TRUE(says(refused(path), "holds logits of a router, which do not say how many experts a token gets: --top-k"));
  EXPECT_EQ(file_kind(path), FileKind::expert_counts);
  const TensorFile file = open_tensors(path);
  EXPECT_TRUE(is_router_logits(file.tensors().front(), file));
  ImportOptions options;
  options.routed.top_k = 2;
  const Imported imported = import_router_logits(file, options);
  EXPECT_EQ(counts_of(imported, 0, 0), (Counts{1, 1, 2}));
  EXPECT_EQ(counts_of(imported, 0, 1), (Counts{2, 1, 1}));  // of equal logits the first expert is chosen
  EXPECT_TRUE(says(all_remarks(imported), "the 2 experts with the largest logits"));
  EXPECT_TRUE(says(refused(path, {.top_k = 4}), "has 3 experts, but --top-k is 4"));
}

// SGLang numbers each record of its recorder beside the counts.
TEST_F(ExpertCountDumps, TheStepOfARecordMayStandBesideItsCounts) {
  std::vector<CountArray> arrays;
  for (const int record : {0, 1, 2}) {
    const std::string name = "records." + std::to_string(record);
    arrays.push_back({name + ".global_physical_count", {1, 2}, [record] {
                        return std::vector<double>{3.0 + record, 5};
                      }});
    arrays.push_back({name + ".forward_pass_id", {}, [record] { return std::vector<double>{100.0 + 2 * record}; }});
  }
  const Imported imported = runs_of_counts("dump.pt", arrays, {}, {});
  EXPECT_EQ(imported.runs.at(0)->steps(), (StepRange{100, 104}));
  EXPECT_EQ(counts_of(imported, 102, 0), (Counts{4, 5}));
  EXPECT_TRUE(says(all_remarks(imported), "the steps are those of 'records.0.forward_pass_id'"));
}

// Counts of copies, and of experts with a number in their name: the copies are the same tokens.
TEST(CountArrays, HaveTheNumbersOfTheirNamesAndAxes) {
  const auto array = [](const char* name, Shape shape, std::vector<double> values) {
    return CountArray{name, std::move(shape), [values] { return values; }};
  };
  const std::vector<CountArray> arrays = {
      array("records.0.logical_count", {2, 2}, {1, 2, 3, 4}), array("records.1.logical_count", {2, 2}, {5, 6, 7, 8}),
      array("records.0.physical_count", {2, 2}, {1, 2, 3, 4}), array("num_experts", {}, {2})};
  EXPECT_TRUE(is_count_array(arrays[0], "dump.json"));
  EXPECT_FALSE(is_count_array(arrays[3], "dump.json"));
  const Imported imported = runs_of_counts("dump.json", arrays, {.top_k = 1, .experts = 2}, {});
  ASSERT_EQ(imported.runs.size(), 1u);
  EXPECT_EQ(imported.runs[0]->info().top_k, 1);
  EXPECT_EQ(find_router(imported.runs[0]->frame_at(0).get(), 1)->tokens_per_expert, (Counts{3, 4}));
  EXPECT_EQ(find_router(imported.runs[0]->frame_at(1).get(), 0)->tokens_per_expert, (Counts{5, 6}));
  EXPECT_TRUE(says(problem_of([&] { runs_of_counts("dump.json", {arrays[3]}, {}, {}); }), "has no counts of experts"));
}

TEST(CountNames, NumbersAreStepsLayersAndExpertsByTheWordsBeforeThem) {
  const CountName sglang = count_name("records.12.global_physical_count", "dump");
  EXPECT_TRUE(sglang.counts);
  EXPECT_EQ(sglang.step, 12);
  const CountName layer = count_name("model.layers.7.mlp.experts.tokens_per_expert", "dump");
  EXPECT_EQ(layer.layer, 7);
  EXPECT_TRUE(layer.counts && layer.expert < 0);
  EXPECT_EQ(count_name("layer_3/expert_12", "expert_counts").expert, 12);
  EXPECT_EQ(count_name("5", "expert_counts").unnamed_numbers, std::vector<std::int64_t>{5});
  EXPECT_TRUE(count_name("5", "expert_counts").counts);
  for (const char* name : {"max_tokens_per_expert", "num_experts", "expert_bias", "layers.0.experts.w1", "expert_ids"})
    EXPECT_FALSE(count_name(name, "dump").counts) << name;
  EXPECT_TRUE(count_name("expert_counts_2d", "expert_counts_2d").unnamed_numbers.empty());
  EXPECT_FALSE(count_name("gate_proj", "expert_counts").counts);
}

}  // namespace
}  // namespace moescope
