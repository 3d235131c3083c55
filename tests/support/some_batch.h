// A batch of random bytes.
#pragma once

#include <cstdint>

#include "core/config/run_config.h"
#include "core/model/text/dataset.h"
#include "core/numerics/rng.h"

namespace moescope {

inline Batch some_batch(const RunConfig& config, std::int64_t seed) {
  Batch batch = empty_batch(config.data.batch, config.data.seq);
  const RandomStream stream(seed, "batch");
  for (std::size_t t = 0; t < batch.input.size(); ++t) {
    batch.input[t] = static_cast<std::int32_t>(stream.bits(t) % 256);
    batch.target[t] = static_cast<std::int32_t>(stream.bits(t + 1) % 256);
  }
  return batch;
}

}  // namespace moescope
