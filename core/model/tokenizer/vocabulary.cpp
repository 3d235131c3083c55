#include "core/model/tokenizer/vocabulary.h"

#include <stdexcept>

namespace moescope {

void Vocabulary::add(std::string_view token, TokenId id) {
  if (token.size() > bytes_.capacity() - bytes_.size()) throw std::logic_error("Vocabulary: more bytes than announced");
  const std::size_t begin = bytes_.size();
  bytes_.insert(bytes_.end(), token.begin(), token.end());
  const std::string_view stored_token(bytes_.data() + begin, token.size());
  if (id >= end()) tokens_.resize(static_cast<std::size_t>(id) + 1);
  tokens_[id] = stored_token;
  ids_.insert_or_assign(stored_token, id);
}

std::optional<TokenId> Vocabulary::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  return found != ids_.end() ? std::optional(found->second) : std::nullopt;
}

std::optional<std::string_view> Vocabulary::token(TokenId id) const {
  return id >= 0 && id < end() ? tokens_[id] : std::nullopt;
}

}  // namespace moescope
