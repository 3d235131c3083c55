// The start of a training from a checkpoint of transformers: the settings that its config.json fixes, and its weights.
//
// The trainer supports latent attention, RoPE without scaling, and dense layers before the layers with experts, as in
// DeepSeek-V2 and -V3. In transformers the norms inside latent attention have an epsilon of their own (export_model.h),
// so the rows of the weights in front of these norms are scaled.
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
  // `folder` holds config.json; weights are not read. Throws std::runtime_error "FILE: 'KEY' ..." if the trainer does
  // not support the model.
  explicit TrainingStart(const std::string& folder);

  // Returns the settings of the checkpoint, and the defaults of all other settings.
  const RunConfig& config() const { return config_; }
  // Returns a problem for each setting of `config` that differs from config.json.
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

// Returns the settings of a run that begins with this checkpoint (checkpoint_folder.h) and reads the tokens of its
// tokenizer.json. Throws as TrainingStart and checkpoint_folder(), and if that tokenizer cannot be read.
RunConfig run_from_checkpoint(const std::string& path);

// Copies the weights of config.model.initial_weights to `parameters` and their choice biases to `expert_bias`,
// [MoE layer][E], in FP32. Throws std::runtime_error if a file cannot be read, or if its shapes are not those of the
// config.
void load_initial_weights(const RunConfig& config, Parameters<float>& parameters,
                          std::vector<std::vector<float>>& expert_bias);

}  // namespace moescope
