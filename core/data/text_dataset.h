// Batches from text files: sequences begin at any place in the text with equal probability.
#pragma once

#include <cstdint>
#include <memory>

#include "core/data/dataset.h"

namespace moescope {

// Limit of the text that is read into memory; far more than a model of this size reads in a day.
inline constexpr std::int64_t kMaxTextBytes = std::int64_t{512} << 20;

// Opens the text of a config with a path. Throws as open_dataset() does.
std::unique_ptr<Dataset> open_text_dataset(const DataConfig& config, std::int64_t seed,
                                           std::unique_ptr<const Tokenizer> tokenizer, const GoesOn& goes_on);

}  // namespace moescope
