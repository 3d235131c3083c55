// Rewrites a text before it is cut into pieces: the "normalizer" of tokenizer.json.
#pragma once

#include <functional>
#include <string>

#include "core/model/tokenizer/json_place.h"
#include "core/model/tokenizer/text_budget.h"

namespace moescope {

struct NormalizedText {
  std::string text;             // UTF-8
  std::size_t start_bytes = 0;  // bytes at its beginning that come from the first character of the whole text
};

using Normalizer = std::function<void(NormalizedText&, TextBudget&)>;  // throws std::runtime_error

// BertNormalizer and Nmt are not supported. Throws Unreadable naming the key.
Normalizer read_normalizer(const JsonPlace& place);

}  // namespace moescope
