// assets/python/moescope_log.py with Debian's PyTorch: its log of a small model in training equals the counts of that
// model. tests/run installs PyTorch; without it the tests are skipped with a message.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/files/tensors/open_tensors.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/model/layers/sampled_blocks.h"
#include "core/numerics/quantize.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr int kLoggedSteps = 25;
const char* const kPython = "/usr/bin/python3";

int shell(const std::string& command) {
  return std::system(command.c_str());
}

// A folder for the files of a script of tests/python, deleted after the test.
class PythonLog : public testing::Test {
 protected:
  void SetUp() override {
    static const bool has_torch = shell(std::string(kPython) + " -c 'import torch' 2>/dev/null") == 0;
    if (!has_torch) GTEST_SKIP() << "no PyTorch for " << kPython << ": apt-get install python3-torch runs this test";
    folder = fs::temp_directory_path() / ("moescope_python_" + std::to_string(::getpid()));
    fs::create_directories(folder);
  }
  void TearDown() override {
    if (!folder.empty()) fs::remove_all(folder);
  }
  void run(const std::string& script, const std::string& more = {}) {
    ASSERT_EQ(shell(std::string(kPython) + " " MOESCOPE_TEST_DATA "/python/" + script + " " + folder.string() + more),
              0);
  }
  nlohmann::json truth_of(const std::string& name) {
    std::ifstream file(folder / (name + ".truth.json"));
    return nlohmann::json::parse(file);
  }
  fs::path folder;
};

TEST_F(PythonLog, WhatItLogsIsWhatTheModelCounted) {
  ASSERT_NO_FATAL_FAILURE(run("train_moe.py", " " + std::to_string(kLoggedSteps)));
  for (const std::string name : {"indices", "logits", "buffers"}) {
    SCOPED_TRACE(name);
    const Imported log = import_jsonl((folder / (name + ".jsonl")).string());
    EXPECT_EQ(log.bad.count(), 0) << log.bad.text();
    ASSERT_EQ(log.runs.size(), 1u);
    const History& history = *log.runs[0];
    EXPECT_EQ(history.info().name, name);
    EXPECT_EQ(history.info().moe_layers, (std::vector<int>{1, 2}));
    EXPECT_EQ(history.info().n_experts, 8);
    EXPECT_EQ(history.info().top_k, 2);
    EXPECT_EQ(history.info().tokens_per_step, 64);
    ASSERT_EQ(history.steps(), (StepRange{0, kLoggedSteps - 1}));
    const auto truth = truth_of(name);
    for (int step = 0; step < kLoggedSteps; ++step) {
      const auto frame = history.frame_at(step);
      ASSERT_EQ(frame->step, step);
      EXPECT_NEAR(frame->ce_loss, truth[static_cast<std::size_t>(step)]["loss"].get<double>(), 1e-5);
      for (std::size_t layer = 0; layer < 2; ++layer)
        EXPECT_EQ(frame->routers[layer].tokens_per_expert,
                  truth[static_cast<std::size_t>(step)]["loads"][layer].get<std::vector<std::uint32_t>>());
    }
    const RouterFrame& first = history.frame_at(0)->routers[0];
    EXPECT_EQ(is_missing(first.score_entropy), name != "logits") << "only logits tell the entropy";
    if (name != "buffers") {
      ASSERT_EQ(first.expert_bias.size(), 8u);
      EXPECT_NEAR(first.expert_bias[7], 0.1f, 1e-6);
    }
  }
}

TEST_F(PythonLog, FindsWhatRoutersOfHuggingFaceChose) {
  ASSERT_NO_FATAL_FAILURE(run("route_like_hf.py"));
  for (const std::string name :
       {"mixtral_4", "mixtral_5", "qwen_5", "deepseek_4", "deepseek_5", "gpt_oss_4", "gpt_oss_5"}) {
    SCOPED_TRACE(name);
    const Imported log = import_jsonl((folder / (name + ".jsonl")).string());
    EXPECT_EQ(log.bad.count(), 0) << log.bad.text();
    const History& history = *log.runs.at(0);
    EXPECT_EQ(history.info().moe_layers, (std::vector<int>{1, 2}));
    EXPECT_EQ(history.info().n_experts, 8);
    EXPECT_EQ(history.info().top_k, 2);
    ASSERT_EQ(history.steps(), (StepRange{0, 3}));
    const auto truth = truth_of(name);
    const bool has_scores = name != "deepseek_4" && name != "gpt_oss_4";
    const bool has_weights = name != "mixtral_4";
    for (std::int64_t step = 0; step < 4; ++step) {
      for (std::size_t layer = 0; layer < 2; ++layer) {
        const RouterFrame& router = history.frame_at(step)->routers[layer];
        const auto& counted = truth[layer][static_cast<std::size_t>(step)];
        EXPECT_EQ(router.tokens_per_expert, counted["load"].get<std::vector<std::uint32_t>>());
        EXPECT_EQ(is_missing(router.score_entropy), !has_scores);
        if (has_scores) {
          EXPECT_NEAR(router.score_entropy, counted["entropy"].get<float>(), 1e-4);
          EXPECT_GT(router.mutual_information, 0) << "by entropy and score_mass";
        }
        ASSERT_EQ(router.score_mass.size(), has_scores ? 8u : 0u);
        for (std::size_t expert = 0; expert < router.score_mass.size(); ++expert)
          EXPECT_NEAR(router.score_mass[expert], counted["score_mass"][expert].get<float>(), 1e-5);
        ASSERT_EQ(router.gate_mass.size(), has_weights ? 8u : 0u);
        for (std::size_t expert = 0; expert < router.gate_mass.size(); ++expert)
          EXPECT_NEAR(router.gate_mass[expert], counted["gate_mass"][expert].get<float>(), 1e-5);
      }
    }
  }
}

// Routers of all other shapes, passes that must not count, routers that cannot be read, and ranks: the log has the
// tokens that the experts got, or no row.
TEST_F(PythonLog, LogsTheRightNumberOrNoRow) {
  ASSERT_NO_FATAL_FAILURE(run("route_edges.py", " 2> " + (folder / "said").string()));
  std::ifstream names(folder / "names.json");
  for (const std::string name : nlohmann::json::parse(names)) {
    SCOPED_TRACE(name);
    const Imported log = import_jsonl((folder / (name + ".jsonl")).string());
    EXPECT_EQ(log.bad.count(), 0) << log.bad.text();
    ASSERT_EQ(log.runs.size(), 1u);
    const History& history = *log.runs[0];
    const auto truth = truth_of(name);
    EXPECT_EQ(history.info().n_experts, 8);
    const auto steps = static_cast<std::int64_t>(truth["loads"].size());
    ASSERT_EQ(history.steps(), (StepRange{0, steps - 1}));
    for (std::int64_t step = 0; step < steps; ++step) {
      const auto frame = history.frame_at(step);
      std::map<int, RouterFrame> by_layer;
      for (const RouterFrame& router : frame->routers)
        if (!router.tokens_per_expert.empty()) by_layer[router.layer] = router;
      ASSERT_EQ(by_layer.size(), truth["layers"].size());
      for (std::size_t i = 0; i < by_layer.size(); ++i) {
        const auto& router = by_layer[truth["layers"][i].get<int>()];
        const auto at = static_cast<std::size_t>(step);
        EXPECT_EQ(router.tokens_per_expert, truth["loads"][at][i].get<std::vector<std::uint32_t>>());
        if (truth.contains("entropy")) {
          EXPECT_NEAR(router.score_entropy, truth["entropy"][at][i].get<float>(), 1e-4);
        }
      }
    }
  }
  // Markers of the first step say how padding was counted, and what was not logged.
  const std::pair<const char*, const char*> expected_markers[] = {
      {"padding", "Padding is left out: 68.8 % of the first step's tokens"},
      {"padding_counted", "is counted: count_padding is set"},
      {"one_hot", "is counted: no attention mask"},
      {"unreadable", "give top_k="},
      {"same_tokens", "1 of 2 ranks saw the same tokens"}};
  for (const auto& [name, text] : expected_markers) {
    SCOPED_TRACE(name);
    const Imported log = import_jsonl((folder / (std::string(name) + ".jsonl")).string());
    const auto markers = log.runs.at(0)->markers();
    EXPECT_TRUE(std::any_of(markers.begin(), markers.end(), [&text = text](const Marker& marker) {
      return marker.step == 0 && marker.text.find(text) != std::string::npos;
    }));
  }
}

TEST_F(PythonLog, NormsOfExpertsAreRead) {
  ASSERT_NO_FATAL_FAILURE(run("route_edges.py", " expert_norms"));
  for (const std::string name : {"norms_fused", "norms_listed"}) {
    const Imported log = import_jsonl((folder / (name + ".jsonl")).string());
    EXPECT_EQ(log.bad.count(), 0) << log.bad.text();
    for (const std::int64_t step : {0, 2}) {
      const auto frame = log.runs.at(0)->specialisation_frame_at(step);
      ASSERT_TRUE(frame && frame->step == step);
      ASSERT_EQ(frame->specialisation.size(), 2u);
      for (const SpecialisationFrame& special : frame->specialisation) {
        ASSERT_EQ(special.gradient_norm_E.size(), 8u);
        ASSERT_EQ(special.update_norm_E.size(), 8u);
        EXPECT_GT(special.gradient_norm_E[7], 0);
        EXPECT_EQ(special.update_norm_E[7] > 0, special.layer == 1) << "layer 2 is not in the optimizer";
      }
    }
  }
}

QuantSums sums_of_file(const fs::path& path) {
  const TensorFile file = open_tensors(path.string());
  const TensorView& tensor = file.tensors().at(0);
  const std::vector<float> values = tensor.floats(0, tensor.elements());
  const auto rows = static_cast<Index>(tensor.shape[0]), cols = static_cast<Index>(tensor.shape[1]);
  std::vector<float> decoded(values.size());
  QuantSums sums;
  quantize_operand({{values.data(), rows, cols}, mx_format(ElementFormat::e4m3), BlockAxis::row, {}, &sums},
                   {decoded.data(), rows, cols});
  return sums;
}

TEST_F(PythonLog, LoggedOperandsAreThoseOfTheProducts) {
  ASSERT_NO_FATAL_FAILURE(run("train_blocks.py"));
  const Imported log = import_jsonl((folder / "blocks.jsonl").string());
  EXPECT_EQ(log.bad.count(), 0) << log.bad.text();
  const History& history = *log.runs.at(0);
  const std::vector<Marker> markers = history.markers();
  std::size_t compared = 0;
  for (const std::int64_t step : {0, 5, 10}) {
    const auto frame = history.quant_frame_at(step);
    ASSERT_TRUE(frame && frame->step == step);
    EXPECT_EQ(frame->quants.size(), 34u) << "w1, w2 and wo of two layers, and the head";
    for (const QuantFrame& quant : frame->quants) {
      SCOPED_TRACE(place_text(quant));
      EXPECT_EQ(quant.format.name, "mxfp8_e4m3_rceil");
      const auto blocks = sampled_blocks(markers, history.info(), quant, step);
      ASSERT_TRUE(blocks);
      EXPECT_LE(blocks->operand->sums.amax, quant.amax);
      if (quant.gemm_class() != GemmClass::experts) {  // experts are multiplied one by one, and the first is sampled
        EXPECT_EQ(blocks->operand->sums.amax, quant.amax) << "the block of the largest value is in the sample";
      }
      EXPECT_EQ(blocks->other_sqnr_db.size(), 2u);
      const fs::path file = folder / (place_text(quant) + ".npy");
      if (step > 0 || !fs::exists(file)) continue;
      const QuantSums sums = sums_of_file(file);
      ++compared;
      EXPECT_EQ(quant.e8m0_blocks, sums.e8m0_blocks);
      EXPECT_EQ(quant.amax, sums.amax);
      EXPECT_NEAR(quant.underflow, sums.underflow_share(), 1e-9);
      EXPECT_NEAR(quant.sqnr_db, sums.sqnr_db(), 1e-4);
      EXPECT_NEAR(quant.crest, sums.mean_crest(), 1e-5);
    }
  }
  EXPECT_EQ(compared, 18u);
}

TEST_F(PythonLog, CallbacksWriteALineForEachStep) {
  ASSERT_NO_FATAL_FAILURE(run("route_like_hf.py"));
  for (const std::string name : {"trainer", "lightning"}) {
    SCOPED_TRACE(name);
    const Imported log = import_jsonl((folder / (name + ".jsonl")).string());
    EXPECT_EQ(log.bad.count(), 0) << log.bad.text();
    const History& history = *log.runs.at(0);
    ASSERT_EQ(history.steps(), (StepRange{0, 3}));
    const auto truth = truth_of(name);
    for (std::int64_t step = 0; step < 4; ++step) {
      const auto frame = history.frame_at(step);
      const bool has_loss = name == "lightning" || step % 2 == 1;  // the stand-in for the Trainer logs every other step
      EXPECT_EQ(is_missing(frame->ce_loss), !has_loss) << step;
      if (has_loss) {
        EXPECT_FLOAT_EQ(frame->ce_loss, static_cast<float>(step) + 0.5f);
      }
      for (std::size_t layer = 0; layer < 2; ++layer) {
        auto both = truth[layer][static_cast<std::size_t>(2 * step)]["load"].get<std::vector<std::uint32_t>>();
        const auto second = truth[layer][static_cast<std::size_t>(2 * step + 1)]["load"];
        for (std::size_t e = 0; e < both.size(); ++e) both[e] += second[e].get<std::uint32_t>();
        EXPECT_EQ(frame->routers[layer].tokens_per_expert, both) << "two micro-batches, and no evaluation";
      }
    }
  }
}

}  // namespace
}  // namespace moescope
