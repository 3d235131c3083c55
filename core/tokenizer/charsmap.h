// The character map of a SentencePiece model ("precompiled_charsmap"): texts and their replacements.
//
// It is the Base64 form of three parts: the size of the trie in bytes (32 bits, little-endian); the trie, a double
// array of 32-bit units with the layout of Darts-clone (https://github.com/s-yata/darts-clone); the replacements, each
// ended by a zero byte. The value of a word in the trie is the position of its replacement.
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
  // Replaces every grapheme (a character as users see it) of less than 6 bytes if the map has it or its beginning;
  // otherwise the characters of the grapheme are replaced one by one.
  std::string mapped(std::string_view text) const;

 private:
  std::optional<std::string_view> replacement(std::string_view part) const;
  void append_mapped(std::string& to, std::string_view grapheme) const;
  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace moescope
