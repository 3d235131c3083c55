// The files and folders that a training reads, as its config names them.
#pragma once

#include <string>
#include <vector>

#include "core/config/run_config.h"

namespace moescope {

// An entry is empty if the run does not read such a file.
inline std::vector<std::string> input_paths(const RunConfig& config) {
  return {config.data.path, config.data.tokenizer, config.model.initial_weights};
}

}  // namespace moescope
