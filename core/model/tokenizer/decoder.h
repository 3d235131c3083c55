// Turns tokens into text: the "decoder" of tokenizer.json.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/model/tokenizer/json_place.h"
#include "core/model/tokenizer/text_budget.h"

namespace moescope {

// Takes the tokens of a text, spelled as in the vocabulary, and replaces them by texts that the caller concatenates. If
// `alone`, replaces a single token by its bytes, regardless of its place in a text: a blank at its beginning is kept.
using TokenDecoder = std::function<void(std::vector<std::string>& tokens, bool is_single, TextBudget& budget)>;

// Reads ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip, BPEDecoder and Sequence. Throws Unreadable naming the
// key.
TokenDecoder read_decoder(const JsonPlace& place);

}  // namespace moescope
