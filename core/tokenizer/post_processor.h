// Special tokens that are put around the ids of a text, such as one that begins it: the "post_processor" of
// tokenizer.json.
#pragma once

#include <vector>

#include "core/tokenizer/json_place.h"
#include "core/tokenizer/vocabulary.h"

namespace moescope {

struct SpecialTokens {
  std::vector<TokenId> before, behind;
};

// TemplateProcessing (its form for one text), ByteLevel (which adds none), BertProcessing, RobertaProcessing and
// Sequence, the later ones outside. Throws Unreadable naming the key.
SpecialTokens read_special_tokens(const JsonPlace& place);

}  // namespace moescope
