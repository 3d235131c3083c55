// The number formats of a run as settings of the libraries that train with them: torchao's MoE training configs and
// TransformerEngine's recipes. Module names are those of TorchTitan's DeepSeek-V3.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "core/config/run_config.h"
#include "core/findings/replay/replay_page.h"

namespace moescope {

// Returns a JSON object with
//   "torchao"            "configs": for each class of GEMMs that it can quantize, the fqns (parts of module names), the
//                        class of the config and its recipe or arguments; "skip_fqns": layers that stay in BF16
//   "transformer_engine" "by_class": for each class of GEMMs the recipe and its arguments, null if it is not quantized;
//                        "layers_in_bf16"
//   "not_expressed"      sentences about the settings of [precision] that one of them does not have
nlohmann::json training_recipe(const RunConfig& config);

// Returns a JSON text with the training recipe of each run and the verdict on it that it rests on: sentence, gap, steps
// and seeds. The first run is the baseline. Throws std::runtime_error if there are fewer than two runs without noise
// twins, or if the settings of a run are not known.
std::string compared_recipes(std::span<const ReplayRun> runs);

}  // namespace moescope
