// What turns a piece of a text into tokens: the "model" of tokenizer.json.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/tokenizer/json_place.h"
#include "core/tokenizer/vocabulary.h"

namespace moescope {

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the tokens of `piece`, UTF-8, not empty. Any thread. Throws std::runtime_error where the vocabulary lacks a
  // character and the model has no token for that.
  virtual void encode(std::string_view piece, std::vector<TokenId>& ids) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
};

// BPE and Unigram; others are refused by name. Throws Unreadable naming the key.
std::unique_ptr<TokenModel> read_token_model(const JsonPlace& place);
std::unique_ptr<TokenModel> read_bpe(const JsonPlace& place);
std::unique_ptr<TokenModel> read_unigram(const JsonPlace& place);

// The tokens of single bytes, "<0x00>" to "<0xFF>", which stand for characters that a vocabulary lacks.
class ByteTokens {
 public:
  explicit ByteTokens(const Vocabulary& vocabulary);
  // False: the vocabulary lacks one of these bytes, and nothing is appended.
  bool append(std::string_view bytes, std::vector<TokenId>& ids) const;

 private:
  std::array<std::optional<TokenId>, 256> ids_;
};

}  // namespace moescope
