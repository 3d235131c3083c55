// A run's weights, exported for transformers and opened again, give the run's logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/checkpoints/checkpoint_model.h"
#include "core/checkpoints/export_model.h"
#include "core/config/config_toml.h"
#include "core/model/transformer.h"
#include "core/tensors/safetensors.h"
#include "core/tokenizer/tokenizer.h"
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
  clock.start(Phase::other);
  model.forward(batch, bias, false, clock);
  return {model.logits(), model.logits() + batch.input.size() * 256};
}

// Returns the largest difference between the logits of the run and those of its export.
double difference_after_export(const RunConfig& config, const TestFolder& folder) {
  Trainer trainer(config);
  for (int step = 0; step < 3; ++step) trainer.step(some_batch(config, step));
  trainer.save(folder / "run.safetensors");
  export_for_transformers(folder / "run.safetensors", folder / "exported");
  const Tokenizer tokenizer(folder / "exported/tokenizer.json");
  EXPECT_EQ(tokenizer.encode("a \u00e9\n"), (std::vector<std::int32_t>{'a', ' ', 0xc3, 0xa9, '\n'}));
  const Batch batch = some_batch(config, 9);
  const std::vector<float> want = logits_of_run(folder / "run.safetensors", config, batch);
  KeptLogits exported;
  CheckpointModel(folder / "exported").forward(batch.input, batch.sequences, batch.length, exported);
  EXPECT_EQ(exported.all.size(), want.size());
  double most = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    most = std::max(most, std::fabs(double{exported.all[i]} - double{want[i]}));
  return most;
}

TEST(ExportModel, logits_are_those_of_the_run) {
  const TestFolder folder("export");
  RunConfig config = small_run();
  EXPECT_LT(difference_after_export(config, folder), 1e-4);
  config.model.q_lora_rank = 12;
  config.model.norm_eps = 1e-3;  // transformers' inner norms differ
  config.model.n_shared = 0;
  config.router.n_groups = 4;
  config.router.n_limited_groups = 2;
  config.router.route_scale = 2.5;
  EXPECT_LT(difference_after_export(config, folder), 1e-4);
  config = small_run();
  config.router.score_func = ScoreFunc::softmax;
  config.router.route_norm = false;
  config.router.bias_update_rate = 0;
  EXPECT_LT(difference_after_export(config, folder), 1e-4);
}

TEST(ExportModel, what_no_class_holds_says_why) {
  for (const char* preset : {"nano", "small", "mini-v3", "DeepSeek-V3"})
    EXPECT_EQ(why_not_in_transformers(load_preset(preset).config), "") << preset;
  for (const char* preset : {"DeepSeek-V4", "Kimi-K3", "Nemotron-3-Super", "Qwen3-Next", "gpt-oss"})
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

}  // namespace
}  // namespace moescope
