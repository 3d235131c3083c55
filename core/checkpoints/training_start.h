// A training that goes on from a checkpoint of transformers: the settings that its config.json fixes, and its weights.
//
// The trainer has latent attention, RoPE without scaling and dense layers before those with experts: DeepSeek-V2 and
// -V3. transformers' norms inside latent attention have an epsilon of their own (export_model.h), so that the rows that
// they norm are scaled.
#pragma once

#include <string>
#include <vector>

#include "core/checkpoints/checkpoint_config.h"
#include "core/config/config_check.h"
#include "core/config/config_field.h"
#include "core/config/run_config.h"
#include "core/model/layers/parameters.h"

namespace moescope {

class TrainingStart {
 public:
  // A folder with config.json; weights are not read. Throws std::runtime_error "FILE: 'KEY' ..." if the trainer cannot
  // hold such a model.
  explicit TrainingStart(const std::string& folder);

  // The defaults with the settings of the checkpoint.
  const RunConfig& config() const { return config_; }
  // Settings of the model and its router that differ from config.json.
  std::vector<ConfigProblem> contradictions(const RunConfig& config) const;

 private:
  struct FixedSetting {
    Setting setting;
    const char* key;  // of config.json
  };

  std::string path_;  // of config.json
  RunConfig config_;
  std::vector<FixedSetting> fixed_;
};

// Returns the settings of a run that begins with this checkpoint and reads the tokens of its tokenizer.json. Throws as
// TrainingStart, and if that tokenizer cannot be read.
RunConfig run_from_checkpoint(const std::string& folder);

// Fills in the weights and expert_bias [MoE layer][E] of config.model.initial_weights, in FP32. Throws
// std::runtime_error: the file cannot be read, or its shapes are not those of the config.
void load_initial_weights(const RunConfig& config, Parameters<float>& parameters,
                          std::vector<std::vector<float>>& expert_bias);

}  // namespace moescope
