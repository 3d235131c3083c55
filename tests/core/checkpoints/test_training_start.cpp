// Trainings that begin with a checkpoint of transformers. golden_checkpoints compares their losses with transformers'.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/checkpoints/export_model.h"
#include "core/checkpoints/training_start.h"
#include "core/config/config_difference.h"
#include "core/files/input_file.h"
#include "core/files/tensors/safetensors.h"
#include "core/files/text/json_text.h"
#include "core/training/engine/engine.h"
#include "core/training/engine/lock_step.h"
#include "core/training/trainer.h"
#include "tests/support/problem_of.h"
#include "tests/support/small_checkpoint.h"
#include "tests/support/small_run.h"
#include "tests/support/some_batch.h"
#include "tests/support/test_folder.h"

namespace moescope {
namespace {

// Returns a run that has taken three steps, and exports it to folder/model.
Trainer exported_run(const RunConfig& config, const TestFolder& folder) {
  Trainer trainer(config);
  for (int step = 0; step < 3; ++step) trainer.step(some_batch(config, step));
  trainer.save(folder / "run.safetensors");
  export_for_transformers(folder / "run.safetensors", folder / "model");
  return trainer;
}

// Returns the run that starts from folder/model, with the data, the optimizer and the bias update rate of `config`.
RunConfig continued(const TestFolder& folder, const RunConfig& config) {
  RunConfig next = run_from_checkpoint(folder / "model");
  next.data = config.data;
  next.optimizer = config.optimizer;
  next.router.bias_update_rate = config.router.bias_update_rate;
  return next;
}

void change_config(const TestFolder& folder, const char* key, const nlohmann::json& value) {
  const std::string path = folder / "model/config.json";
  nlohmann::json json = nlohmann::json::parse(std::ifstream(path));
  json[key] = value;
  std::ofstream(path) << json.dump();
}

void expect_equal_loss(RunConfig config) {
  const TestFolder folder("start");
  Trainer trainer = exported_run(config, folder);
  const RunConfig next = continued(folder, config);
  EXPECT_TRUE(validate(next).empty());
  EXPECT_EQ(next.name, "model");
  EXPECT_EQ(next.data.tokenizer, "");  // a token is a byte
  Trainer begun(next);
  EXPECT_EQ(begun.steps_taken(), 0);
  const TelemetryFrame expected = trainer.step(some_batch(config, 3)), is = begun.step(some_batch(config, 3));
  EXPECT_NEAR(is.ce_loss, expected.ce_loss, 1e-5);
  ASSERT_EQ(is.routers.size(), expected.routers.size());
  for (std::size_t i = 0; i < is.routers.size(); ++i) {
    EXPECT_EQ(is.routers[i].tokens_per_expert, expected.routers[i].tokens_per_expert) << i;
    EXPECT_EQ(is.routers[i].expert_bias, expected.routers[i].expert_bias) << i;
  }
}

TEST(TrainingStart, TheFirstLossIsThatOfTheExportedRun) {
  RunConfig config = small_run();
  expect_equal_loss(config);
  config.model.q_lora_rank = 12;
  config.model.norm_eps = 1e-3;  // transformers' inner norms differ
  config.model.n_dense_layers = 0;
  config.router.n_groups = 4;
  config.router.n_limited_groups = 2;
  config.router.route_scale = 2.5;
  expect_equal_loss(config);
  config = small_run();
  config.router.score_func = ScoreFunc::softmax;
  config.router.route_norm = false;
  config.router.bias_update_rate = 0;
  expect_equal_loss(config);
}

TEST(TrainingStart, SettingsThatContradictConfigJsonNameBoth) {
  const TestFolder folder("contradiction");
  const RunConfig config = small_run();
  exported_run(config, folder);
  RunConfig other = continued(folder, config);
  EXPECT_TRUE(TrainingStart(folder / "model").contradictions(other).empty());
  other.model.dim = 48;
  other.router.top_k = 3;
  const std::vector<ConfigProblem> problems = TrainingStart(folder / "model").contradictions(other);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].text(),
            "model.dim: is 48, but 'hidden_size' of " + (folder / "model/config.json") + " requires 32");
  EXPECT_EQ(problems[1].text(),
            "router.top_k: is 3, but 'num_experts_per_tok' of " + (folder / "model/config.json") + " requires 2");
  EXPECT_EQ(problem_of([&] { Trainer trainer(other); }), problems[0].text());
  other.model.dim = 32;
  EXPECT_EQ(problem_of([&] { Trainer trainer(other); }), "");  // a twin may choose more experts
}

TEST(TrainingStart, WhatTheTrainerCannotHoldNamesTheKey) {
  const SmallCheckpoint mixtral("start_mixtral");
  EXPECT_EQ(problem_of([&] { TrainingStart start(mixtral.path()); }),
            mixtral.file("config.json") +
                ": 'model_type' is 'mixtral', whose attention has no latent keys; the trainer takes deepseek_v2 and "
                "deepseek_v3");
  const TestFolder folder("refusals");
  exported_run(small_run(), folder);
  const auto problem = [&](const char* key, const nlohmann::json& value, const nlohmann::json& back) {
    change_config(folder, key, value);
    const std::string found = problem_of([&] { TrainingStart start(folder / "model"); });
    change_config(folder, key, back);
    return found.substr(found.find(": ") + 2);
  };
  const nlohmann::json plain{{"rope_type", "default"}, {"rope_theta", 10000.0}};
  EXPECT_EQ(problem("rope_parameters", {{"rope_type", "yarn"}, {"factor", 4}}, plain),
            "'rope_parameters.rope_type' is not 'default'; the trainer rotates without scaling");
  EXPECT_EQ(problem("rope_interleave", false, true),
            "'rope_interleave' is false; the trainer rotates neighbouring features");
  EXPECT_EQ(problem("tie_word_embeddings", true, false),
            "'tie_word_embeddings' is true; the trainer has a head of its own");
  EXPECT_EQ(problem("attention_bias", true, false), "'attention_bias' is true; the trainer's attention has no biases");
  change_config(folder, "moe_layer_freq", 2);
  EXPECT_EQ(problem("mlp_layer_types", {"dense", "sparse", "dense"}, nullptr),
            "'mlp_layer_types' has a dense layer after one with experts; the trainer has dense layers first");
}

TEST(TrainingStart, AVocabularyWithoutTokenizerIsRefused) {
  const TestFolder folder("vocabulary");
  exported_run(small_run(), folder);
  change_config(folder, "vocab_size", 320);
  std::filesystem::remove(folder / "model/tokenizer.json");
  const std::vector<ConfigProblem> problems = validate(run_from_checkpoint(folder / "model"));
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].text(),
            "model.vocab: vocab is 320, but tokens are bytes without a tokenizer: choose 256, or set data.tokenizer");
}

// A noise twin has perturbed weights, because another seed would begin with the same weights of the checkpoint.
TEST(TrainingStart, ANoiseTwinHasPerturbedWeights) {
  const TestFolder folder("twin");
  const RunConfig config = small_run();
  exported_run(config, folder);
  const RunConfig first = continued(folder, config), twin = noise_twin(first);
  EXPECT_EQ(twin.seed, first.seed);
  EXPECT_EQ(twin.perturbation, 1);
  EXPECT_EQ(lock_step_problem(first, twin), "");
  RunConfig seed = first;
  seed.seed += 1;
  EXPECT_NE(lock_step_problem(first, seed), "");
  Trainer(first).save(folder / "first.safetensors");
  Trainer(twin).save(folder / "twin.safetensors");
  const std::vector<float> a = SafetensorsFile(folder / "first.safetensors").at("output.weight").floats(),
                           b = SafetensorsFile(folder / "twin.safetensors").at("output.weight").floats();
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_NE(a[i], b[i]);
    ASSERT_EQ(std::nextafter(a[i], b[i]), b[i]);
  }
}

// Writes a byte-level tokenizer with the three merges "th", " th" and "he", and returns its path.
std::string small_tokenizer(const TestFolder& folder) {
  exported_run(small_run(), folder);
  const std::string path = folder / "merged.json";
  nlohmann::json json = nlohmann::json::parse(std::ifstream(folder / "model/tokenizer.json"));
  const std::vector<std::pair<std::string, std::string>> merges{{"t", "h"}, {"\u0120", "th"}, {"h", "e"}};
  for (const auto& [first, right] : merges) {
    json["model"]["vocab"][first + right] = json["model"]["vocab"].size();
    json["model"]["merges"].push_back({first, right});
  }
  std::ofstream(path) << json.dump();
  return path;
}

// A run uses the tokens of a tokenizer in its batches, its texts and its export.
TEST(TrainingStart, TokensAreThoseOfTheTokenizer) {
  const TestFolder folder("tokens");
  RunConfig config = small_run();
  config.data.tokenizer = small_tokenizer(folder);
  config.model.vocab = 259;
  config.data.batch = 1;
  config.data.seq = 64;
  config.telemetry.specialisation_every = config.telemetry.texts_every = config.telemetry.sample_every = 1;
  config.telemetry.probe = "then the other";
  ASSERT_TRUE(validate(config).empty());
  for (const char* text : {"", "the thin path of the moth"}) {
    if (*text) {
      config.data.path = folder / "text.txt";
      std::ofstream file(config.data.path);
      for (int i = 0; i < 20; ++i) file << text << '\n';
    }
    const auto data = open_dataset(config.data, config.seed);
    EXPECT_EQ(data->vocabulary(), 259);
    const Batch batch = data->batch(0);
    if (*text) {
      EXPECT_TRUE(std::ranges::any_of(batch.input, [](std::int32_t id) { return id >= 256; }));
    }
    EXPECT_TRUE(std::equal(batch.input.begin() + 1, batch.input.begin() + 64, batch.target.begin()));
    Trainer trainer(config);
    const TelemetryFrame frame = trainer.step(batch);
    ASSERT_EQ(frame.texts.size(), 3u);
    EXPECT_EQ(frame.texts[0].text, "then the other");
    const std::vector<bool> missing_losses{true, true, false, false, false, true, true};  // th|e|n| th|...
    for (std::size_t byte = 0; byte < missing_losses.size(); ++byte)
      EXPECT_EQ(is_missing(frame.texts[0].loss_T[byte]), missing_losses[byte]) << byte;
    const std::string passage = data->batch(0).tokenizer->decode(std::span(batch.input).first(64));
    EXPECT_EQ(frame.texts[2].text, passage.substr(0, frame.texts[2].text.size()));
    EXPECT_TRUE(frame.specialisation[0].byte_256E.empty());
    EXPECT_EQ(frame.specialisation[0].n_experts(), 8u);
    trainer.save(folder / "tokens.safetensors");
    EXPECT_EQ(Trainer::resume(folder / "tokens.safetensors").step(batch).ce_loss, trainer.step(batch).ce_loss);
  }
  export_for_transformers(folder / "tokens.safetensors", folder / "model");
  const auto json_of = [](const std::string& path) { return parse_json(read_file(path, 1 << 20, "test")); };
  EXPECT_EQ(json_of(folder / "model/tokenizer.json"), json_of(config.data.tokenizer));
  EXPECT_EQ(run_from_checkpoint(folder / "model").data.tokenizer, folder / "model/tokenizer.json");
  std::filesystem::rename(folder / "model/tokenizer.json", folder / "elsewhere.json");
  std::filesystem::create_symlink(folder / "elsewhere.json", folder / "model/tokenizer.json");
  const std::string link_problem = problem_of([&] { run_from_checkpoint(folder / "model"); });
  EXPECT_NE(link_problem.find("is a link to"), std::string::npos) << link_problem;
  config.model.vocab = 258;
  std::vector<Trainer> trainers;
  trainers.emplace_back(config);
  EXPECT_EQ(problem_of([&] { Engine engine(std::move(trainers), {}); }),
            "model.vocab is 258, but data.tokenizer has 259 tokens: choose at least as many");
}

}  // namespace
}  // namespace moescope
