// Where the figures of a run come from.
#pragma once

#include <cstdint>

#include "core/frame/frame.h"

namespace moescope {

enum class RunOrigin : std::uint8_t {
  training,    // of this program
  checkpoint,  // texts run through another program's model, whose weights do not change from step to step
  log          // of another program
};

// The log of another program has no kernels of this program.
inline RunOrigin run_origin(const RunInfo& info) {
  if (!info.config_toml.empty()) return RunOrigin::training;
  return info.kernels.empty() ? RunOrigin::log : RunOrigin::checkpoint;
}

}  // namespace moescope
