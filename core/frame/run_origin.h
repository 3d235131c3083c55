// Where the figures of a run come from.
#pragma once

#include <cstdint>

#include "core/frame/frame.h"

namespace moescope {

enum class RunOrigin : std::uint8_t {
  training,    // by this program
  checkpoint,  // texts that this program ran through a model of another one: nothing changes from step to step
  log          // of another program
};

// A log names no kernels of this program.
inline RunOrigin run_origin(const RunInfo& info) {
  if (!info.config_toml.empty()) return RunOrigin::training;
  return info.kernels.empty() ? RunOrigin::log : RunOrigin::checkpoint;
}

}  // namespace moescope
