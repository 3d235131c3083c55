// Batches out of text files: sequences that begin anywhere in the text, every place equally likely.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "core/data/dataset.h"

namespace moescope {

// Most text that is read into memory. What a model of this size can see in a day is far less.
inline constexpr std::int64_t kMaxTextBytes = std::int64_t{512} << 20;

// As open_dataset, for a config with a path.
std::unique_ptr<Dataset> open_text_dataset(const DataConfig& config, std::int64_t seed);

}  // namespace moescope
