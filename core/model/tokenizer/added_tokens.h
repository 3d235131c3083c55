// Tokens that are found in a text before it is cut into pieces: the "added_tokens" of tokenizer.json, such as
// "<|endoftext|>".
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/model/tokenizer/flat_table.h"
#include "core/model/tokenizer/json_place.h"
#include "core/model/tokenizer/token_model.h"

namespace moescope {

struct AddedToken {
  std::string content;
  std::string found_as;                          // the content, normalized if `normalized`
  bool single_word = false;                      // matches only if no word character is next to it
  bool left_strip = false, right_strip = false;  // a match includes the white space before it, after it
  bool normalized = false;                       // is searched for in the normalized text, not in the original one
  bool special = false;                          // left out when ids are decoded without special tokens
};

class AddedTokens {
 public:
  // A part of a text: an added token, or the text between two of them.
  struct Part {
    std::size_t begin = 0, end = 0;
    std::optional<TokenId> id;  // nullopt for text between added tokens
  };

  // Reads the list. A token whose content is in the model's vocabulary keeps its id there. The other tokens get the
  // ids after those of the vocabulary, in the order of the list, as in the `tokenizers` package. `normalized(text)`
  // returns the normalized text. Throws Unreadable naming the key.
  AddedTokens(const std::optional<JsonPlace>& list, const Vocabulary& model,
              const std::function<std::string(std::string_view)>& normalized);

  // Returns the parts of `text` in order, split at the tokens whose AddedToken::normalized is `normalized`; the longest
  // match wins.
  std::vector<Part> split(std::string_view text, bool normalized) const;
  const AddedToken* find(TokenId id) const;  // nullptr if no added token has this id
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
