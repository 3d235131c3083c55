// Turns tokens into text: the "decoder" of tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/tokenizer/json_place.h"

namespace moescope {

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // Replaces the tokens of a whole text, spelled as in the vocabulary, by texts that the caller concatenates.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
  // Replaces one token by its bytes, regardless of its place in a text: a blank at its beginning is kept.
  virtual void apply_alone(std::string& token) const = 0;
};

// Reads ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip, BPEDecoder and Sequence. Throws Unreadable naming the
// key.
std::unique_ptr<TokenDecoder> read_decoder(const JsonPlace& place);

}  // namespace moescope
