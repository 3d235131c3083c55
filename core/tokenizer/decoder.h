// How tokens become text again: the "decoder" of tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/tokenizer/json_place.h"

namespace moescope {

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // From the tokens of a whole text, as the vocabulary spells them, to texts that are put one behind the other.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
  // The bytes that one token stands for wherever in a text it is: a blank at its beginning stays.
  virtual void apply_alone(std::string& token) const = 0;
};

// ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip, BPEDecoder and Sequence. Throws Unreadable naming the key.
std::unique_ptr<TokenDecoder> read_decoder(const JsonPlace& place);

}  // namespace moescope
