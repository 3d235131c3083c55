// Tokens that are found in a text before it is cut into pieces: the "added_tokens" of tokenizer.json, such as
// "<|endoftext|>".
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/tokenizer/byte_trie.h"
#include "core/tokenizer/json_place.h"
#include "core/tokenizer/vocabulary.h"

namespace moescope {

struct AddedToken {
  std::string content;
  std::string found_as;                          // the content, normalized if `normalized`
  bool single_word = false;                      // only matches if no character of a word is next to it
  bool left_strip = false, right_strip = false;  // includes the blanks before it, after it
  bool normalized = false;                       // is searched in the normalized text, not in the original one
  bool special = false;                          // left out when ids are decoded as plain text
};

class AddedTokens {
 public:
  // A part of a text: an added token, or the text between two of them.
  struct Part {
    std::size_t begin = 0, end = 0;
    std::optional<TokenId> id;
  };

  // A token whose content is in the model's vocabulary has its id there. Ids of other tokens follow those of the
  // vocabulary in the order of the list, as in the `tokenizers` package. `normalized(text)` normalizes a text. Throws
  // Unreadable naming the key.
  AddedTokens(const std::optional<JsonPlace>& list, const Vocabulary& model,
              const std::function<std::string(std::string_view)>& normalized);

  std::vector<Part> split(std::string_view text, bool normalized) const;  // in order; the longest match wins
  const AddedToken* find(TokenId id) const;                               // nullptr if it is no added token
  std::optional<TokenId> id_of(std::string_view content) const;
  TokenId end() const { return end_; }  // one more than the largest id; 0 without added tokens

 private:
  void read(const JsonPlace& place, const Vocabulary& model,
            const std::function<std::string(std::string_view)>& normalized);
  void build_tries();

  std::unordered_map<TokenId, AddedToken> tokens_;
  std::unordered_map<std::string, TokenId> ids_;  // by content
  ByteTrie as_written_{0}, as_normalized_{0};
  TokenId end_ = 0;
};

}  // namespace moescope
