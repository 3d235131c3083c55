// A run's weights, exported for transformers and opened again, give the run's logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "core/checkpoints/checkpoint_model.h"
#include "core/checkpoints/export_model.h"
#include "core/config/config_check.h"
#include "core/config/config_field.h"
#include "core/config/config_toml.h"
#include "core/files/tensors/safetensors.h"
#include "core/model/tokenizer/tokenizer.h"
#include "core/model/transformer.h"
#include "core/training/trainer.h"
#include "tests/support/kept_logits.h"
#include "tests/support/problem_of.h"
#include "tests/support/small_run.h"
#include "tests/support/some_batch.h"
#include "tests/support/test_folder.h"

namespace moescope {
namespace {

// Returns the logits that the run's own model computes from its checkpoint.
std::vector<float> logits_of_run(const std::string& checkpoint, const RunConfig& config, const Batch& batch) {
  const SafetensorsFile file(checkpoint);
  Parameters<float> parameters(config.model);
  for (const ParameterTensor& tensor : parameters.tensors())
    parameters.scatter(tensor, file.at(tensor.name).floats(), parameters.weights);
  std::vector<std::vector<float>> bias;
  for (int layer = config.model.n_dense_layers; layer < config.model.n_layers; ++layer)
    bias.push_back(file.at("layers." + std::to_string(layer) + ".moe.expert_bias").floats());
  Transformer<float> model(config, parameters, batch.sequences, batch.length);
  PhaseClock clock;
  model.forward(batch, bias, false, clock);
  return {model.logits().data, model.logits().data + model.logits().size()};
}

void save_trained(const RunConfig& config, const std::string& file) {
  Trainer trainer(config);
  for (int step = 0; step < 3; ++step) trainer.step(some_batch(config, step));
  trainer.save(file);
}

// Returns the largest difference between the logits of the run and those of its export.
double difference_after_export(const RunConfig& config, const TestFolder& folder) {
  const Batch batch = some_batch(config, 9);
  const std::vector<float> want = logits_of_run(folder / "run.safetensors", config, batch);
  KeptLogits exported;
  CheckpointModel(folder / "exported").forward(batch.input, batch.sequences, batch.length, exported);
  EXPECT_EQ(exported.all.size(), want.size());
  double largest = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    largest = std::max(largest, std::fabs(double{exported.all[i]} - double{want[i]}));
  return largest;
}

double difference_after_training(const RunConfig& config, const TestFolder& folder) {
  save_trained(config, folder / "run.safetensors");
  export_for_transformers(folder / "run.safetensors", folder / "exported");
  const Tokenizer tokenizer(folder / "exported/tokenizer.json");
  EXPECT_EQ(tokenizer.encode("a \u00e9\n"), (std::vector<std::int32_t>{'a', ' ', 0xc3, 0xa9, '\n'}));
  return difference_after_export(config, folder);
}

// Returns values of a setting other than that of `config`; some may not be allowed.
std::vector<ConfigValue> other_values(const ConfigField& field, const RunConfig& config) {
  const std::map<std::string, std::string> texts{{"router.killed_experts", "*:1"},
                                                 {"router.pinned_bias", "*:1=0.5"},
                                                 {"router.initial_bias", "*:1=0.5"},
                                                 {"precision.override_x", "mxfp4"},
                                                 {"precision.override_w", "mxfp4"},
                                                 {"precision.override_dy", "mxfp4"},
                                                 {"precision.operands", "*.experts.*.x=mxfp4"},
                                                 {"data.mixture", "prose:1"}};
  const ConfigValue current = field.get(config);
  if (const bool* value = std::get_if<bool>(&current)) return {!*value};
  if (const auto* value = std::get_if<std::int64_t>(&current)) return {*value + 1, 2 * *value, *value / 2};
  if (const double* value = std::get_if<double>(&current)) return {*value + 0.5, 2 * *value, *value / 2};
  if (const auto text = texts.find(field.key); text != texts.end()) return {text->second};
  return {field.choices.begin(), field.choices.end()};
}

bool names(const std::vector<std::string>& notes, const std::string& key) {
  return std::ranges::any_of(notes, [&](const std::string& note) { return note.find(key) != std::string::npos; });
}

TEST(ExportModel, LogitsAreThoseOfTheRun) {
  const TestFolder folder("export");
  RunConfig config = small_run();
  EXPECT_LT(difference_after_training(config, folder), 1e-4);
  config.model.q_lora_rank = 12;
  config.model.norm_eps = 1e-3;  // transformers' inner norms differ
  config.model.n_shared = 0;
  config.router.n_groups = 4;
  config.router.n_limited_groups = 2;
  config.router.route_scale = 2.5;
  EXPECT_LT(difference_after_training(config, folder), 1e-4);
  config = small_run();
  config.router.score_func = ScoreFunc::softmax;
  config.router.route_norm = false;
  config.router.bias_update_rate = 0;
  EXPECT_LT(difference_after_training(config, folder), 1e-4);
}

// A setting that changes what the run computes is in the exported model, or refused or noted by name. Experts of other
// groups have higher scores than 0 here, so that the group mask counts.
TEST(ExportModel, EverySettingIsExportedRefusedOrNoted) {
  const TestFolder folder("export_settings");
  RunConfig base = small_run();
  base.data.seq = 16;
  base.router.n_groups = 4;
  base.router.n_limited_groups = 2;
  base.router.initial_bias = "*:0=-2, *:1=-2, *:2=-2, *:3=-2, *:4=-2, *:5=-2, *:6=-2, *:7=-2";
  base.router.bias_centring = false;
  base.router.capacity_factor = 1;
  base.model.q_lora_rank = 12;
  int exported = 0, refused = 0, noted = 0;
  for (const ConfigField& field : config_fields()) {
    if (field.derived || field.section == "telemetry" || field.section == "optimizer") continue;
    for (const ConfigValue& value : other_values(field, base)) {
      RunConfig config = base;
      if (!check_field(field, value).empty() || value == field.get(base)) continue;
      field.set(config, value);
      if (!validate(config).empty() || config.router.replay) continue;
      const std::string file = folder / "run.safetensors", what = field.key + " = " + to_string(value);
      save_trained(config, file);
      ExportedModel model;
      const std::string problem = problem_of([&] { model = export_for_transformers(file, folder / "exported"); });
      if (!problem.empty()) {
        const std::string section(field.section);  // softmax is refused by router.route_norm
        EXPECT_NE(problem.find("supports it: " + section + '.'), std::string::npos) << what << ": " << problem;
        ++refused;
      } else if (names(model.notes, field.key)) {
        ++noted;
      } else {
        EXPECT_LT(difference_after_export(config, folder), 2e-4) << what;
        ++exported;
      }
    }
  }
  EXPECT_GT(exported, 40);
  EXPECT_GT(refused, 6);
  EXPECT_GT(noted, 20);
}

TEST(ExportModel, SettingsThatCountOnlyWithOthersAreRefusedOrNoted) {
  RunConfig config = small_run();
  config.router.fault_group_mask = GroupMask::zero;
  EXPECT_EQ(why_not_in_transformers(config), "") << "without groups it changes nothing";
  config.router.n_groups = 4;
  config.router.n_limited_groups = 2;
  EXPECT_EQ(why_not_in_transformers(config), "router.fault_group_mask: scores of groups that were not chosen are 0");
  config = small_run();
  config.router.replay = true;
  EXPECT_EQ(why_not_in_transformers(config), "router.replay: experts that run A chose");
}

TEST(ExportModel, WhatNoClassHoldsSaysWhy) {
  for (const char* preset : {"nano", "small", "mini-v3", "mini-DeepSeek-V3"})
    EXPECT_EQ(why_not_in_transformers(load_preset(preset).config), "") << preset;
  for (const char* preset :
       {"mini-DeepSeek-V4", "mini-Kimi-K3", "mini-Nemotron-3-Super", "mini-Qwen3-Next", "mini-gpt-oss"})
    EXPECT_NE(why_not_in_transformers(load_preset(preset).config), "") << preset;
  const TestFolder folder("export");
  RunConfig config = small_run();
  config.router.score_func = ScoreFunc::softmax;
  Trainer(config).save(folder / "run.safetensors");
  EXPECT_EQ(problem_of([&] { export_for_transformers(folder / "run.safetensors", folder / "exported"); }),
            (folder / "run.safetensors") +
                ": no class of transformers supports it: router.route_norm: weights normalised over the top-k of a "
                "softmax, beside latent attention");
}

// A checkpoint of unknown origin can name any file as its tokenizer.
TEST(ExportModel, OnlyATokenizerOfTheRunIsExported) {
  const TestFolder folder("export_tokenizer");
  RunConfig config = small_run();
  config.data.tokenizer = folder / "tokenizer.json";
  config.model.vocab = 300;
  Trainer(config).save(folder / "run.safetensors");
  const auto problem = [&](const std::string& tokenizer) {
    std::ofstream(config.data.tokenizer) << tokenizer;
    return problem_of([&] { export_for_transformers(folder / "run.safetensors", folder / "exported"); });
  };
  EXPECT_EQ(problem("root:x:0:0:root:/root:/bin/sh\n").find(config.data.tokenizer + ": "), 0u);
  EXPECT_EQ(problem(R"({"password": "secret"})").find(config.data.tokenizer + ": "), 0u);
  EXPECT_FALSE(std::filesystem::exists(folder / "exported"));
  const std::string tokens = R"("version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0, "b": )";
  EXPECT_EQ(problem("{" + tokens + R"(300}, "merges": []}})"),
            config.data.tokenizer + ": has 301 tokens, but the model has 300; it is not the tokenizer of the run");
  EXPECT_EQ(problem("{" + tokens + R"(1}, "merges": []}, "password": "secret"})"), "");
  const ExportedModel model = export_for_transformers(folder / "run.safetensors", folder / "exported");
  EXPECT_EQ(model.tokenizer, config.data.tokenizer);
  std::ifstream file(folder / "exported/tokenizer.json");
  const std::string exported{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(exported.find("secret"), std::string::npos) << exported;
  EXPECT_EQ(Tokenizer(folder / "exported/tokenizer.json").encode("ab"), (std::vector<std::int32_t>{0, 1}));
}

// Files of a model folder may be links within it, and in a cache of Hugging Face to the files of the same model.
TEST(ExportModel, AModelFolderIsNotLeftByLinks) {
  const TestFolder folder("export_links");
  Trainer(small_run()).save(folder / "run.safetensors");
  export_for_transformers(folder / "run.safetensors", folder / "model");
  for (const char* name : {"config.json", "model.safetensors"}) {
    const std::string file = folder / "model/" + name, elsewhere = folder / name;
    std::filesystem::rename(file, elsewhere);
    std::filesystem::create_symlink(elsewhere, file);
    EXPECT_EQ(problem_of([&] { CheckpointModel(folder / "model"); }).find(file + ": is a link to " + elsewhere), 0u);
    std::filesystem::remove(file);
    std::filesystem::rename(elsewhere, file);
  }
  const std::string snapshot = folder / "models--m/snapshots/r", blobs = folder / "models--m/blobs";
  std::filesystem::create_directories(snapshot);
  std::filesystem::rename(folder / "model", blobs);
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::create_symlink(std::string("../../blobs/") + name, snapshot + '/' + name);
  EXPECT_EQ(CheckpointModel(snapshot).layers().size(), 3u);
}

}  // namespace
}  // namespace moescope
