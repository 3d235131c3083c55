// Tokens that are found in a text before it is cut: the "added_tokens" of tokenizer.json, such as "<|endoftext|>".
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
  std::string found_as;                          // the content, or what the normalizer makes of it
  bool single_word = false;                      // only where no character of a word stands beside it
  bool left_strip = false, right_strip = false;  // takes the blanks before it, behind it
  bool normalized = false;                       // looked for in the normalized text, not in the text as it was
  bool special = false;                          // left out when ids are decoded as plain text
};

class AddedTokens {
 public:
  // A part of a text: one of these tokens, or text between.
  struct Part {
    std::size_t begin = 0, end = 0;
    std::optional<TokenId> id;
  };

  // Ids are those of the model's vocabulary where it has the content, and otherwise follow on it in the order of the
  // list, as in the `tokenizers` package; `normalized(text)` is what the normalizer makes of a text. Throws Unreadable
  // naming the key.
  AddedTokens(const std::optional<JsonPlace>& list, const Vocabulary& model,
              const std::function<std::string(std::string_view)>& normalized);

  std::vector<Part> split(std::string_view text, bool normalized) const;  // in order; the longest of several that fit
  const AddedToken* find(TokenId id) const;                               // nullptr: none of these
  std::optional<TokenId> id_of(std::string_view content) const;
  TokenId end() const { return end_; }  // one more than the largest id; 0: there are none

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
