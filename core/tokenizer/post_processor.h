// Special tokens that are added around the ids of a text, such as a token for its beginning: the "post_processor" of
// tokenizer.json.
#pragma once

#include <vector>

#include "core/tokenizer/json_place.h"
#include "core/tokenizer/vocabulary.h"

namespace moescope {

struct SpecialTokens {
  std::vector<TokenId> before, behind;
};

// Reads TemplateProcessing (its form for one text), ByteLevel (which adds no token), BertProcessing, RobertaProcessing
// and Sequence, whose later members add their tokens outside. Throws Unreadable naming the key.
SpecialTokens read_special_tokens(const JsonPlace& place);

}  // namespace moescope
