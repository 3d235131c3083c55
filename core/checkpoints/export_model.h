// Exports the weights of a run as a folder for transformers: config.json, model.safetensors (F32), and tokenizer.json:
// the run's own, or one whose tokens are bytes.
//
// DeepseekV3ForCausalLM is used for models with sigmoid scores, DeepseekV2ForCausalLM for those with a softmax without
// a bias. A model without shared experts gets one whose weights are zero. The norms inside latent attention have
// epsilon 1e-6 in transformers, regardless of config.json: rms(c) with another epsilon e equals rms(c sqrt(1e-6 / e))
// with 1e-6, so the rows that compute c are scaled.
#pragma once

#include <string>

#include "core/config/run_config.h"

namespace moescope {

// Returns why no class of transformers can compute this model, "PART: WHY"; empty if one can.
std::string why_not_in_transformers(const RunConfig& config);

// `checkpoint` is a file of Trainer::save with a correct checksum. Creates the folder and replaces files of the same
// names. Returns the number of written tensors. Throws std::runtime_error.
int export_for_transformers(const std::string& checkpoint, const std::string& folder);

}  // namespace moescope
