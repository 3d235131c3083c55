// assets/python/moescope_log.py with PyTorch as Debian has it: what it logs of a small model in training is what that
// model counted. tests/run installs PyTorch; where it is not there, the test says so.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/telemetry/logs/import_jsonl.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr int kLoggedSteps = 25;
const char* const kPython = "/usr/bin/python3";

int shell(const std::string& command) {
  return std::system(command.c_str());
}

TEST(PythonLog, WhatItLogsIsWhatTheModelCounted) {
  if (shell(std::string(kPython) + " -c 'import torch' 2>/dev/null") != 0)
    GTEST_SKIP() << "no PyTorch for " << kPython << ": apt-get install python3-torch runs this test";
  const fs::path folder = fs::temp_directory_path() / ("moescope_python_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  ASSERT_EQ(shell(std::string(kPython) + " " MOESCOPE_TEST_DATA "/python/train_moe.py " + folder.string() + " " +
                  std::to_string(kLoggedSteps)),
            0);
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
    std::ifstream file(folder / (name + ".truth.json"));
    const auto truth = nlohmann::json::parse(file);
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
  fs::remove_all(folder);
}

}  // namespace
}  // namespace moescope
