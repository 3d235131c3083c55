// The character map of a SentencePiece model ("precompiled_charsmap"): which text stands for which.
//
// Base64 of: bytes of the trie (32 bits, little-endian); the trie, a double array of 32-bit units as Darts-clone lays
// it out (https://github.com/s-yata/darts-clone); the texts that are put in, each ended by a zero byte. The value of a
// word in the trie is where its text begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/json_place.h"

namespace moescope {

class Charsmap {
 public:
  explicit Charsmap(const JsonPlace& base64);  // throws Unreadable naming the key
  // Replaces what a user takes for one character (a grapheme) of less than 6 bytes where the map has it or its
  // beginning, and otherwise the characters that it consists of.
  std::string mapped(std::string_view text) const;

 private:
  std::optional<std::string_view> replacement(std::string_view part) const;
  void append_mapped(std::string& to, std::string_view grapheme) const;
  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace moescope
