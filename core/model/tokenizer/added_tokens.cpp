#include "core/model/tokenizer/added_tokens.h"

#include <algorithm>
#include <unordered_set>

#include "core/model/tokenizer/characters.h"

namespace moescope {
namespace {

constexpr std::size_t kMaxAdded = 100'000;
constexpr std::size_t kLongestAdded = 1000;  // bytes; limited because the search starts at every byte of a text

// True if neither the character before `begin` nor the character at `end` is a word character.
bool is_single_word(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin > 0 && is_word_character(previous_character(text, begin))) return false;
  return end == text.size() || !is_word_character(next_character(text, end));
}

std::size_t blanks_begin_before(std::string_view text, std::size_t at) {
  for (std::size_t before = at; at > 0; at = before)
    if (!is_white_space(previous_character(text, before))) break;
  return at;
}

std::size_t blanks_end_behind(std::string_view text, std::size_t at) {
  for (std::size_t behind = at; at < text.size(); at = behind)
    if (!is_white_space(next_character(text, behind))) break;
  return at;
}

}  // namespace

AddedTokens::AddedTokens(const std::optional<JsonPlace>& list, const Vocabulary& model,
                         const std::function<std::string(std::string_view)>& normalized) {
  if (!list) return;
  std::unordered_set<std::int64_t> ids;
  for (const JsonPlace& place : list->items(kMaxAdded)) {
    const JsonPlace id = place.at("id");
    if (!ids.insert(id.whole(0, kMaxTokens - 1)).second) id.fail("is that of another added token");
    read(place, model, normalized);
  }
  build_tries();
}

void AddedTokens::read(const JsonPlace& place, const Vocabulary& model,
                       const std::function<std::string(std::string_view)>& normalized) {
  AddedToken token;
  token.content = place.at("content").text();
  if (token.content.empty()) return;
  if (token.content.size() > kLongestAdded)
    place.at("content").fail("has more than " + std::to_string(kLongestAdded) + " bytes");
  token.single_word = place.flag("single_word", false);
  token.left_strip = place.flag("lstrip", false);
  token.right_strip = place.flag("rstrip", false);
  token.special = place.flag("special", false);
  token.normalized = place.flag("normalized", !token.special);
  token.found_as = token.normalized ? normalized(token.content) : token.content;

  std::optional<TokenId> id = id_of(token.content);
  if (!id) id = model.id_of(token.content);
  if (!id) id = std::max(end_, static_cast<TokenId>(model.distinct()));
  if (*id >= kMaxTokens) place.fail("there are more than " + std::to_string(kMaxTokens) + " tokens");
  end_ = std::max(end_, *id + 1);
  ids_[token.content] = *id;
  tokens_[*id] = std::move(token);
}

void AddedTokens::build_tries() {
  std::size_t written = 0, normalized = 0;
  for (const auto& [id, token] : tokens_) (token.normalized ? normalized : written) += token.found_as.size();
  as_written_ = ByteTrie(written);
  as_normalized_ = ByteTrie(normalized);
  std::vector<TokenId> in_order;
  for (const auto& [id, token] : tokens_) in_order.push_back(id);
  std::ranges::sort(in_order);
  for (const TokenId id : in_order) {
    const AddedToken& token = tokens_.at(id);
    if (!token.found_as.empty()) (token.normalized ? as_normalized_ : as_written_).add(token.found_as, id);
  }
}

std::vector<AddedTokens::Part> AddedTokens::split(std::string_view text, bool normalized) const {
  const ByteTrie& trie = normalized ? as_normalized_ : as_written_;
  std::vector<Part> parts;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    Part found{at, at, std::nullopt};
    trie.each_prefix(text.substr(at), [&](std::size_t length, TokenId id) { found = {at, at + length, id}; });
    if (!found.id) {
      ++at;
      continue;
    }
    at = found.end;
    const AddedToken& token = tokens_.at(*found.id);
    if (token.single_word && !is_single_word(text, found.begin, found.end)) continue;
    if (token.left_strip) found.begin = std::max(blanks_begin_before(text, found.begin), done);
    if (token.right_strip) found.end = blanks_end_behind(text, found.end);
    if (done < found.begin) parts.push_back({done, found.begin, std::nullopt});
    parts.push_back(found);
    done = found.end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), std::nullopt});
  return parts;
}

const AddedToken* AddedTokens::find(TokenId id) const {
  const auto found = tokens_.find(id);
  return found != tokens_.end() ? &found->second : nullptr;
}

std::optional<TokenId> AddedTokens::id_of(std::string_view content) const {
  const auto found = ids_.find(std::string(content));
  return found != ids_.end() ? std::optional(found->second) : std::nullopt;
}

}  // namespace moescope
