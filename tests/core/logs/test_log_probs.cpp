// Log-probabilities of trainers and inference engines, written here in the formats that the programs document.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/files/tensors/safetensors.h"
#include "core/files/unreadable.h"
#include "core/logs/log_probs.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

class LogProbFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("moescope_log_probs_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  std::string write(const char* name, const std::string& text) const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
  fs::path folder_;
};

std::string log_prob_refusal(const std::string& json) {
  try {
    log_probs_in(json);
  } catch (const Unreadable& problem) {
    return problem.what();
  }
  return {};
}

void add_log_probs(SafetensorsWriter& writer, const char* name, const std::vector<float>& values) {
  writer.add(name, DType::f32, {2, 3}, std::as_bytes(std::span(values)));
}

// By hand: d is 0, ln 3 and -0.1 for the tokens that count.
TEST_F(LogProbFiles, ABatchOfVerlHasBothSidesAndAMask) {
  SafetensorsWriter writer;
  add_log_probs(writer, "rollout_log_probs", {-1, -2, -1, -1, 0, 0});
  add_log_probs(writer, "old_log_probs", {-1, std::log(3.0f) - 2, -1.1f, -5, -7, -7});
  const std::vector<std::int64_t> mask = {1, 1, 1, 0, 0, 0};
  writer.add("response_mask", DType::i64, {2, 3}, std::as_bytes(std::span(mask)));
  writer.write(path("batch.safetensors"));
  const LogProbs batch = read_log_probs(path("batch.safetensors"));
  const LogRatios ratios = compare_log_probs(batch, batch);
  EXPECT_EQ(ratios.tokens(), 3);
  EXPECT_NEAR(ratios.k1(), (0.1 - std::log(3.0)) / 3, 1e-6);
  EXPECT_NEAR(ratios.k3(), ((3 - 1 - std::log(3.0)) + (std::exp(-0.1) - 1 + 0.1)) / 3, 1e-6);
  EXPECT_NEAR(ratios.ratio_beyond_2(), 1.0 / 3, 1e-12);
  EXPECT_NEAR(ratios.largest(), std::log(3.0), 1e-6);
}

TEST_F(LogProbFiles, FilesOfSlimeAndArealAreRead) {
  const LogProbs slime = log_probs_in(
      R"({"rollout_log_probs": [[-1, -2], [-3]], "log_probs": [[-1.5, -2], [-3]], "loss_mask": [[1, 0], [1]]})");
  ASSERT_EQ(slime.trainer.size(), 2u);
  EXPECT_EQ(compare_log_probs(slime, slime).tokens(), 2);
  EXPECT_NEAR(compare_log_probs(slime, slime).k1(), 0.25, 1e-7);
  const LogProbs areal =
      log_probs_in("{\"logprobs\": [-1, -2], \"prox_logp\": [-1, -2.5]}\n{\"logprobs\": [-1], \"prox_logp\": [-1]}\n");
  EXPECT_EQ(areal.engine.size(), 2u);
  EXPECT_NEAR(compare_log_probs(areal, areal).k1(), 0.5 / 3, 1e-7);
}

// The trainer's file has a mask; the responses hold only the tokens that it selects.
TEST_F(LogProbFiles, ATrainerIsComparedWithTheResponsesOfAnEngine) {
  const LogProbs trainer =
      read_log_probs(write("trainer.json", R"({"log_probs": [[-9, -1, -2, -9], [-9, -3, -9, -9]], "response_mask":
        [[0, 1, 1, 0], [0, 1, 0, 0]]})"));
  const char* const engines[] = {
      R"([{"meta_info": {"output_token_logprobs": [[-1, 17, "a"], [-2.5, 4, null]]}},
          {"meta_info": {"output_token_logprobs": [[-3, 17, "a"]]}}])",
      "{\"choices\": [{\"logprobs\": {\"token_logprobs\": [-1, -2.5], \"tokens\": [\"a\", \"b\"]}}]}\n"
      "{\"choices\": [{\"logprobs\": {\"token_logprobs\": [-3]}}]}\n",
      R"({"choices": [{"message": {"content": "ab"}, "logprobs": {"content": [
            {"token": "a", "logprob": -1, "top_logprobs": []}, {"token": "b", "logprob": -2.5}]}},
          {"message": {"content": "c"}, "logprobs": {"content": [{"token": "c", "logprob": -3}]}}]})"};
  for (const char* engine : engines) {
    const LogRatios ratios = compare_log_probs(trainer, log_probs_in(engine));
    EXPECT_EQ(ratios.tokens(), 3) << engine;
    EXPECT_NEAR(ratios.k1(), -0.5 / 3, 1e-7) << engine;
  }
}

TEST_F(LogProbFiles, WhatCannotBeComparedIsRefused) {
  EXPECT_NE(log_prob_refusal(R"({"log_probs": [0.5]})").find("at most 0"), std::string::npos);
  EXPECT_NE(log_prob_refusal(R"({"log_probs": [-1, -2], "loss_mask": [1]})").find("beside a mask of 1"),
            std::string::npos);
  EXPECT_NE(log_prob_refusal("{\"log_probs\": [-1]}\n{\"log_probs\": [-1}\n").find("line 2"), std::string::npos);
  const auto problem_with = [](const char* p, const char* q) -> std::string {
    try {
      compare_log_probs(log_probs_in(p), log_probs_in(q));
    } catch (const std::runtime_error& problem) {
      return problem.what();
    }
    return {};
  };
  EXPECT_EQ(problem_with(R"({"log_probs": [-1, -2]})", R"({"log_probs": [-1]})"),
            "sequence 0 has 2 tokens of the trainer and 1 of the engine");
  EXPECT_EQ(problem_with(R"({"old_log_probs": [-1]})", R"({"old_log_probs": [-1]})"),
            "no log-probabilities of an engine");
  EXPECT_EQ(problem_with(R"({"log_probs": ["NaN"]})", R"({"log_probs": [-1]})"),
            "no token has a finite log-probability on both sides");
  EXPECT_THROW(read_log_probs(write("other.json", "{\"loss\": 2}")), std::runtime_error);
}

}  // namespace
}  // namespace moescope
