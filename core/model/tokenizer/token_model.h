// The model that turns a piece of a text into tokens: the "model" of tokenizer.json.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/model/tokenizer/json_place.h"
#include "core/model/tokenizer/text_budget.h"
#include "core/model/tokenizer/vocabulary.h"

namespace moescope {

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the tokens of `piece`, which is UTF-8 and not empty. May be called from any thread. Throws
  // std::runtime_error if the vocabulary lacks a character and the model has no token for unknown characters, and what
  // TextBudget throws.
  virtual void encode(std::string_view piece, std::vector<TokenId>& ids, TextBudget& budget) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
};

// Reads a BPE or Unigram model. Throws Unreadable naming the key, also if the model is of another type.
std::unique_ptr<TokenModel> read_token_model(const JsonPlace& place);
std::unique_ptr<TokenModel> read_bpe(const JsonPlace& place);
std::unique_ptr<TokenModel> read_unigram(const JsonPlace& place);

// The tokens of single bytes, "<0x00>" to "<0xFF>", that encode characters missing from a vocabulary.
class ByteTokens {
 public:
  explicit ByteTokens(const Vocabulary& vocabulary);
  // Returns false and appends nothing if the vocabulary lacks one of these bytes.
  bool append(std::string_view bytes, std::vector<TokenId>& ids) const;

 private:
  std::array<std::optional<TokenId>, 256> ids_;
};

}  // namespace moescope
