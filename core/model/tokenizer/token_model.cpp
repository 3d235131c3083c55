#include "core/model/tokenizer/token_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

namespace moescope {

std::unique_ptr<TokenModel> read_token_model(const JsonPlace& place) {
  const auto type = place.find("type");
  if (!type) return place.find("merges") ? read_bpe(place) : read_unigram(place);  // files before 2021 have no type
  return type->one_of({"BPE", "Unigram"}) == 0 ? read_bpe(place) : read_unigram(place);
}

ByteTokens::ByteTokens(const Vocabulary& vocabulary) {
  for (int byte = 0; byte < 256; ++byte) ids_[byte] = vocabulary.id_of(fmt::format("<0x{:02X}>", byte));
}

bool ByteTokens::append(std::string_view bytes, std::vector<TokenId>& ids) const {
  const auto id = [this](char byte) { return ids_[static_cast<unsigned char>(byte)]; };
  if (!std::ranges::all_of(bytes, [&](char byte) { return id(byte).has_value(); })) return false;
  for (const char byte : bytes) ids.push_back(*id(byte));
  return true;
}

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
