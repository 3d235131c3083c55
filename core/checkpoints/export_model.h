// Exports the weights of a run as a folder for transformers: config.json, model.safetensors (F32), tokenizer.json and
// tokenizer_config.json. The tokenizer is that of the run, or one whose tokens are bytes.
//
// DeepseekV3ForCausalLM is used for models with sigmoid scores, DeepseekV2ForCausalLM for models with softmax scores
// and no bias. A model without shared experts gets one whose weights are zero. The norms inside latent attention have
// epsilon 1e-6 in transformers, regardless of config.json. rms(c) with another epsilon e equals rms(c sqrt(1e-6 / e))
// with epsilon 1e-6, so the rows of the weights that compute c are scaled.
#pragma once

#include <string>

#include "core/config/run_config.h"

namespace moescope {

// Returns why no class of transformers can compute this model, "SETTING: WHY"; empty if one can.
std::string why_not_in_transformers(const RunConfig& config);

// `checkpoint` is a file of Trainer::save with a correct checksum. Creates the folder and replaces files of the same
// names. Returns the number of written tensors. Throws std::runtime_error.
int export_for_transformers(const std::string& checkpoint, const std::string& folder);

}  // namespace moescope
