// Exports the weights of a run as a folder for transformers: config.json, model.safetensors (F32), tokenizer.json and
// tokenizer_config.json. The tokenizer is that of the run, or one whose tokens are bytes.
//
// The path of the run's tokenizer comes from the checkpoint, which may be of unknown origin and name any file. Only the
// parts of a tokenizer are exported from that file, after it was read as a tokenizer.
//
// DeepseekV3ForCausalLM is used for models with sigmoid scores, DeepseekV2ForCausalLM for models with softmax scores
// and no bias. A model without shared experts gets one whose weights are zero. The norms inside latent attention have
// epsilon 1e-6 in transformers, regardless of config.json. rms(c) with another epsilon e equals rms(c sqrt(1e-6 / e))
// with epsilon 1e-6, so the rows of the weights that compute c are scaled.
#pragma once

#include <string>
#include <vector>

#include "core/config/run_config.h"

namespace moescope {

// Returns why no class of transformers can compute this model, "SETTING: WHY"; empty if one can.
std::string why_not_in_transformers(const RunConfig& config);

// Names of the files that an export writes.
std::vector<std::string> exported_files();

struct ExportedModel {
  int tensors = 0;
  std::string tokenizer;           // path of the run's tokenizer; empty: tokens are bytes
  std::vector<std::string> notes;  // what the run computes and the exported model does not
};
// `checkpoint` is a file of Trainer::save with a correct checksum. Writes the folder as a whole, in place of an earlier
// export (core/files/whole_file.h). Throws std::runtime_error.
ExportedModel export_for_transformers(const std::string& checkpoint, const std::string& folder);

}  // namespace moescope
