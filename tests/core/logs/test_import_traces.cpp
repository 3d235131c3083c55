// tests/golden/traces2026 holds files that the code of W&B and of Megatron-LM wrote, and the values that were written.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/files/tensors/safetensors.h"
#include "core/frame/specialisation.h"
#include "core/logs/file_kind.h"
#include "core/logs/log_readers.h"
#include "core/logs/open_runs.h"

namespace moescope {
namespace {

const std::string kTraces = MOESCOPE_TEST_DATA "/golden/traces2026/";

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

nlohmann::json written_to_wandb() {
  return nlohmann::json::parse(bytes_of(kTraces + "run-sample.expected.json"));
}

// Returns the number of steps with a loss, each of which must be the written one.
std::int64_t steps_as_written(const History& history, const nlohmann::json& written) {
  std::int64_t steps = 0;
  for (const auto& row : written["history"]) {
    const std::int64_t step = row["_step"];
    const float loss = history.values(Metric::ce_loss, kWholeRun, {step, step})[0];
    if (is_missing(loss)) continue;
    EXPECT_FLOAT_EQ(loss, row["lm loss"].get<float>()) << "step " << step;
    ++steps;
  }
  return steps;
}

TEST(ImportWandb, HasWhatWasWritten) {
  const nlohmann::json written = written_to_wandb();
  const Imported imported = import_wandb(kTraces + "run-sample.wandb");
  EXPECT_EQ(imported.bad.count(), 0) << imported.bad.text();
  EXPECT_EQ(imported.lines, written["records"]);
  EXPECT_EQ(steps_as_written(*imported.runs.at(0), written), std::ssize(written["history"]));
  const LogSettings settings = imported.runs.at(0)->settings_at_start()->log();
  for (const auto& [key, value] : written["config"].items())
    if (value.is_number()) {
      EXPECT_EQ(settings.at(key), value.dump()) << key;
    }
}

TEST(ImportWandb, HasTheBeginningOfARunThatIsBeingWritten) {
  const Imported imported = import_wandb(kTraces + "run-truncated.wandb");
  EXPECT_EQ(imported.bad.count(), 0) << imported.bad.text();
  const std::int64_t steps = steps_as_written(*imported.runs.at(0), written_to_wandb());
  EXPECT_GT(steps, 10);
  EXPECT_LT(steps, 120);
}

TEST(ImportWandb, ADamagedRecordIsCountedAndTheOthersAreRead) {
  std::string bytes = bytes_of(kTraces + "run-sample.wandb");
  bytes[bytes.find("lm loss") + 2] ^= 1;
  const std::string path =
      (std::filesystem::temp_directory_path() / ("damaged" + std::to_string(::getpid()) + ".wandb")).string();
  std::ofstream(path, std::ios::binary) << bytes;
  const Imported imported = import_wandb(path);
  std::filesystem::remove(path);
  EXPECT_EQ(imported.bad.count(), 1);
  EXPECT_NE(imported.bad.text().find("wrong checksum"), std::string::npos) << imported.bad.text();
  EXPECT_EQ(steps_as_written(*imported.runs.at(0), written_to_wandb()), 119);
}

TEST(ImportWandb, KeysAreTagsAndTheConfigTheSettings) {
  const nlohmann::json written = written_to_wandb();
  EXPECT_EQ(file_kind(kTraces + "run-sample.wandb"), FileKind::wandb_run);
  const OpenedRuns opened = open_runs({kTraces + "run-sample.wandb"}, {}, 4);
  const History& history = *opened.histories.at(0);
  ASSERT_EQ(history.steps(), (StepRange{0, 119}));
  for (std::int64_t step = 0; step < 120; ++step) {
    const nlohmann::json& row = written["history"][static_cast<std::size_t>(step)];
    EXPECT_FLOAT_EQ(history.value_at(Metric::ce_loss, kWholeRun, step), row["lm loss"].get<float>());
    EXPECT_FLOAT_EQ(history.value_at(Metric::aux_loss, kWholeRun, step), row["load_balancing_loss"].get<float>());
  }
  // Shares of the load of layer 3: MaxVio is the largest share divided by their mean, minus 1.
  double largest_share = 0, sum = 0;
  for (int expert = 0; expert < 8; ++expert) {
    const double share = written["history"][0]["moe_expert_utilization/layer_3_expert_" + std::to_string(expert)];
    largest_share = std::max(largest_share, share);
    sum += share;
  }
  EXPECT_NEAR(history.value_at(Metric::max_vio, 3, 0), 8 * largest_share / sum - 1, 2e-3);
  EXPECT_EQ(history.settings_at_start()->log().at("num_experts"), "64");
  EXPECT_TRUE(is_missing(history.value_at(Metric::z_loss, kWholeRun, 119))) << "nobody logged one";
}

TEST(ImportTrace, AddsUpMicrobatchesByStepAndLayer) {
  const SafetensorsFile expected(kTraces + "megatron_trace.expected.safetensors");
  EXPECT_EQ(file_kind(kTraces + "megatron_trace"), FileKind::router_trace);
  EXPECT_EQ(file_kind(kTraces + "megatron_trace/router_trace_rank0.jsonl"), FileKind::router_trace);
  const Imported imported = import_trace(kTraces + "megatron_trace");
  EXPECT_EQ(imported.bad.count(), 0) << imported.bad.text();
  const History& history = *imported.runs.at(0);
  ASSERT_EQ(history.steps(), (StepRange{100, 102}));
  EXPECT_EQ(history.info().moe_layers, (std::vector<int>{1, 2, 3, 4})) << "three of the decoder and the MTP layer";
  const auto meta = expected.at("meta").integers();
  const int tokens = static_cast<int>(meta[0]), experts = static_cast<int>(meta[1]), top_k = static_cast<int>(meta[2]);
  EXPECT_EQ(history.info().n_experts, experts);
  EXPECT_EQ(history.info().top_k, top_k);
  EXPECT_EQ(history.info().tokens_per_step, 2 * tokens);
  for (const int step : {100, 101}) {
    const auto ids = expected.at("step" + std::to_string(step) + ".ids").integers();
    const std::size_t records = ids.size() / static_cast<std::size_t>(tokens * top_k), layers = records / 2;
    ASSERT_EQ(layers, 4u);
    for (std::size_t layer = 0; layer < layers; ++layer) {
      std::vector<std::uint32_t> counts(static_cast<std::size_t>(experts));
      std::vector<std::uint32_t> together(counts.size() * counts.size());
      for (const std::size_t record : {layer, layer + layers})
        for (int t = 0; t < tokens; ++t) {
          const auto* row = ids.data() + (record * static_cast<std::size_t>(tokens) + static_cast<std::size_t>(t)) *
                                             static_cast<std::size_t>(top_k);
          for (int k = 0; k < top_k; ++k) {
            ++counts[static_cast<std::size_t>(row[k])];
            for (int other = 0; other < top_k; ++other)
              ++together[static_cast<std::size_t>(row[k] * experts + row[other])];
          }
        }
      const RouterFrame& router = history.frame_at(step)->routers[layer];
      EXPECT_EQ(router.tokens_per_expert, counts);
      EXPECT_EQ(is_missing(router.predicted_share), layer == 0) << "no layer before it";
      EXPECT_EQ(history.specialisation_of(static_cast<int>(layer) + 1, step)->together_EE, together);
    }
  }
}

TEST(ImportTrace, ExpertsChosenTogetherAreCountedAlsoWhereTopKChanges) {
  const auto path = std::filesystem::temp_directory_path() / ("router_trace_" + std::to_string(::getpid()) + ".jsonl");
  std::ofstream(path) << "{\"step\":1,\"layer\":0,\"topk\":2,\"num_tokens\":2,\"top_indices\":[[0,1],[1,1]]}\n"
                         "{\"step\":1,\"layer\":0,\"topk\":3,\"num_tokens\":1,\"top_indices\":[[2,1,0]]}\n"
                         "{\"step\":1,\"layer\":0,\"topk\":2,\"num_tokens\":1,\"top_indices\":[[2,0]]}\n";
  const Imported imported = import_trace(path.string());
  std::filesystem::remove(path);
  ASSERT_EQ(imported.bad.count(), 0) << imported.bad.text();
  const History& history = *imported.runs.at(0);
  EXPECT_EQ(history.frame_at(1)->routers[0].tokens_per_expert, (std::vector<std::uint32_t>{3, 4, 2}));
  EXPECT_EQ(history.specialisation_of(0, 1)->together_EE, (std::vector<std::uint32_t>{3, 2, 2, 2, 3, 1, 2, 1, 2}));
}

// A training that resumes from a checkpoint appends to the files of its ranks.
TEST(ImportTrace, WhatARankWritesAgainCountsOnce) {
  const auto folder = std::filesystem::temp_directory_path() / ("moescope_again_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  for (int rank = 0; rank < 2; ++rank) {
    std::ofstream file(folder / ("router_trace_rank" + std::to_string(rank) + ".jsonl"));
    const auto line = [&](int step, const char* experts) {
      file << R"({"step":)" << step << R"(,"block":"decoder","layer":1,"rank":)" << rank
           << R"(,"num_tokens":1,"topk":2,"top_indices":[)" << experts << "]}\n";
    };
    for (const int step : {5, 6, 6, 7, 8}) line(step, "[0,1]");
    for (const int step : {6, 7}) line(step, "[2,3]");
    for (const int step : {7, 9}) line(step, "[1,3]");  // a second microbatch, and the next step
  }
  const Imported trace = import_trace(folder.string());
  const auto loads = [&](int step) { return trace.runs.at(0)->frame_at(step)->routers.at(0).tokens_per_expert; };
  EXPECT_EQ(loads(5), (std::vector<std::uint32_t>{2, 2, 0, 0}));
  EXPECT_EQ(loads(6), (std::vector<std::uint32_t>{0, 0, 2, 2}));
  EXPECT_EQ(loads(7), (std::vector<std::uint32_t>{0, 2, 2, 4}));
  EXPECT_EQ(loads(9), (std::vector<std::uint32_t>{0, 2, 0, 2}));
  EXPECT_EQ(trace.runs[0]->steps(), (StepRange{5, 9}));
  EXPECT_EQ(trace.remarks,
            std::vector<std::string>{"continues from step 6: dropped steps 6 to 8 of an earlier attempt"});
  std::filesystem::remove_all(folder);
}

TEST(Coactivation, TablesOfMoreThan64MiBAreLeftOut) {
  EXPECT_TRUE(fits_coactivation(60, 384)) << "Kimi K2";
  EXPECT_TRUE(fits_coactivation(1, 4096));
  EXPECT_FALSE(fits_coactivation(2, 4096));
  EXPECT_FALSE(fits_coactivation(1, 16384));
  EXPECT_FALSE(fits_coactivation(1, std::size_t{1} << 32)) << "the product overflows";
  EXPECT_TRUE(fits_coactivation(4, 0));
}

// Largest memory that the process has taken so far, in bytes.
std::int64_t most_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} << 10;
}

// A step with one token for expert 65535 has 65,536 loads.
TEST(ImportTrace, AThousandTimesTheBytesOfTheFileAreRefused) {
  const auto folder = std::filesystem::temp_directory_path() / ("moescope_large_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "router_trace_rank0.jsonl").string();
  std::ofstream file(path);
  for (int step = 0; step < 5000; ++step)
    file << R"({"step":)" << step
         << R"(,"block":"decoder","layer":0,"rank":0,"num_tokens":1,"topk":1,"top_indices":[[65535]]})" << '\n';
  file.close();
  const std::int64_t before = most_memory();
  try {
    import_trace(path);
    ADD_FAILURE() << "the trace was read";
  } catch (const std::runtime_error& problem) {
    EXPECT_NE(std::string(problem.what())
                  .find("1 layers of 65536 experts in 5000 steps, but only 5000 entries: is a number wrong? step 0, "
                        "layer 0 has expert 65535"),
              std::string::npos)
        << problem.what();
  }
  EXPECT_LT(most_memory() - before, 100 << 20) << "the loads were allocated before they were refused";
  std::filesystem::remove_all(folder);
}

TEST(ImportTrace, LinesThatCannotBeReadAreCounted) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("moescope_lines_" + std::to_string(::getpid()))).string();
  std::ofstream(path) << "{\"step\":1,\"layer\":0,\"topk\":2,\"num_tokens\":1,\"top_indices\":[[0,1]]}\n"
                         "{\"step\":1,\"layer\":0,\"topk\":2,\"num_tokens\":1,\"top_indices\":[[0]]}\n"
                         "{\"step\":1,\"layer\":0,\"num_tokens\":1,\"top_indices\":[[0,1]]}\n"
                         "{\"step\":1,\"layer\":0,\"topk\":2,\"top_indices\":[[0,70000]]}\n";
  const BadLines bad = import_trace(path).bad;
  EXPECT_EQ(bad.count(), 3) << bad.text();
  EXPECT_NE(bad.text().find("no topk"), std::string::npos) << bad.text();
  std::ofstream(path) << "{\"step\":1}\n";
  EXPECT_THROW(import_trace(path), std::runtime_error);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace moescope
