// The model that turns a piece of a text into tokens: the "model" of tokenizer.json.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/model/tokenizer/json_place.h"
#include "core/model/tokenizer/text_steps.h"
#include "core/numerics/index.h"

namespace moescope {

// Tokens and their ids.
using TokenId = std::int32_t;
inline constexpr TokenId kMaxTokens = 1 << 22;  // all ids are smaller; the largest published vocabularies have 262,144

class Vocabulary {
 public:
  explicit Vocabulary(std::size_t bytes_of_all_tokens) { bytes_.reserve(bytes_of_all_tokens); }
  Vocabulary(const Vocabulary&) = delete;  // tokens_ and ids_ point into bytes_
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // 0 <= id < kMaxTokens; the id must be new. If a token is added twice, id_of() returns its last id.
  void add(std::string_view token, TokenId id);
  std::optional<TokenId> id_of(std::string_view token) const;
  std::optional<std::string_view> token(TokenId id) const;  // nullopt if no token has this id
  std::size_t distinct() const { return ids_.size(); }      // number of different tokens
  TokenId end() const { return to_int(tokens_.size()); }    // one more than the largest id

 private:
  std::vector<char> bytes_;  // of all tokens; never reallocated
  std::vector<std::optional<std::string_view>> tokens_;
  std::unordered_map<std::string_view, TokenId> ids_;
};

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
