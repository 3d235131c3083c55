// Tokens and their ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace moescope {

using TokenId = std::int32_t;
inline constexpr TokenId kMaxTokens = 1 << 22;  // all ids are smaller; the largest published vocabularies have 262,144

class Vocabulary {
 public:
  explicit Vocabulary(std::size_t bytes_of_all_tokens) { bytes_.reserve(bytes_of_all_tokens); }
  Vocabulary(const Vocabulary&) = delete;  // tokens_ and ids_ point into bytes_
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  // 0 <= id < kMostTokens; the id must be new. If a token is added twice, id_of() returns its last id.
  void add(std::string_view token, TokenId id);
  std::optional<TokenId> id_of(std::string_view token) const;
  std::optional<std::string_view> token(TokenId id) const;  // nullopt if no token has this id
  std::size_t distinct() const { return ids_.size(); }      // number of different tokens
  TokenId end() const { return tokens_.size(); }            // one more than the largest id

 private:
  std::vector<char> bytes_;  // of all tokens; never reallocated
  std::vector<std::optional<std::string_view>> tokens_;
  std::unordered_map<std::string_view, TokenId> ids_;
};

}  // namespace moescope
