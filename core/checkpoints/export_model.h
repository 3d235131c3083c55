// Weights of a run as a folder that transformers opens: config.json, model.safetensors (F32), and tokenizer.json for a
// text of bytes.
//
// DeepseekV3ForCausalLM holds what this program trains with sigmoid scores, DeepseekV2ForCausalLM what it trains with a
// softmax without a bias; a model without shared experts gets one whose weights are zero. The norms inside latent
// attention have epsilon 1e-6 there, whatever config.json says: rms(c) with another epsilon e is the same as that of
// c sqrt(1e-6 / e), so the rows that make c are scaled.
#pragma once

#include <string>

#include "core/config/run_config.h"

namespace moescope {

// Why no class of transformers computes what this run does: "PART: WHY" of the settings; empty: one does.
std::string why_not_in_transformers(const RunConfig& config);

// `checkpoint`: a file as Trainer::save writes it, whose checksum is right. Creates the folder; a file of a name that
// it writes is replaced. Throws std::runtime_error. Returns how many tensors were written.
int export_for_transformers(const std::string& checkpoint, const std::string& folder);

}  // namespace moescope
