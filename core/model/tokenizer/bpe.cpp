// Byte-pair encoding: merges two neighbouring tokens into one until no pair has a merge. Each time it merges the pair
// whose merge comes first in the list; of equal pairs, the leftmost.
// R. Sennrich et al., https://arxiv.org/abs/1508.07909.
#include <fmt/core.h>

#include <algorithm>
#include <queue>
#include <stdexcept>
#include <utility>

#include "core/model/tokenizer/characters.h"
#include "core/model/tokenizer/flat_table.h"
#include "core/model/tokenizer/token_model.h"

namespace moescope {
namespace {

struct Merge {
  std::int32_t rank;  // index in the list of merges
  TokenId merged;
};

std::uint64_t pair_key(TokenId first, TokenId second) {
  return static_cast<std::uint64_t>(first) << 32 | static_cast<std::uint32_t>(second);
}

using Merges = FlatTable<Merge>;

// The tokens of a piece while they are merged: a linked list in an array, so that indices stay valid.
class MergedPiece {
 public:
  MergedPiece(const std::vector<TokenId>& ids, const Merges& merges) : merges_(merges) {
    symbols_.reserve(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i)
      symbols_.push_back({ids[i], to_int(i) - 1, i + 1 < ids.size() ? to_int(i) + 1 : kNone});
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) offer(to_int(i));
  }

  void merge_all() {
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      const Symbol& symbol = symbols_[best.place];
      if (symbol.id < 0 || symbol.next == kNone) continue;
      // Skips a pair that has changed since it was queued.
      const Merge* merge = merges_.find(pair_key(symbol.id, symbols_[symbol.next].id));
      if (merge && merge->merged == best.merged) join(best.place, best.merged);
    }
  }

  void append_to(std::vector<TokenId>& ids) const {
    for (const Symbol& symbol : symbols_)
      if (symbol.id >= 0) ids.push_back(symbol.id);
  }

 private:
  static constexpr int kNone = -1;
  static constexpr TokenId kJoined = -1;  // merged into the token before it
  struct Symbol {
    TokenId id;
    int previous, next;
  };
  struct Candidate {
    std::int32_t rank;
    int place;
    TokenId merged;
    bool operator<(const Candidate& other) const {  // the queue's top is the largest
      return rank != other.rank ? rank > other.rank : place > other.place;
    }
  };

  void offer(int place) {
    const Merge* merge = merges_.find(pair_key(symbols_[place].id, symbols_[symbols_[place].next].id));
    if (merge) candidates_.push({merge->rank, place, merge->merged});
  }

  void join(int place, TokenId merged) {
    Symbol& first = symbols_[place];
    Symbol& second = symbols_[first.next];
    first.id = merged;
    first.next = second.next;
    second.id = kJoined;
    if (first.next != kNone) symbols_[first.next].previous = place;
    if (first.previous != kNone) offer(first.previous);
    if (first.next != kNone) offer(place);
  }

  const Merges& merges_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> candidates_;
};

struct BpeRules {
  std::optional<std::string> unknown;  // token for characters that the vocabulary lacks; nullopt: they are left out
  bool fuse_unknown = false;           // a run of unknown characters becomes one token
  bool byte_fallback = false;          // an unknown character becomes the tokens of its bytes
  bool whole_pieces = false;           // a piece that is in the vocabulary becomes that token, without merges
  std::string prefix, suffix;          // added before each character of a piece but its first, and after its last
};

class Bpe : public TokenModel {
 public:
  Bpe(Vocabulary vocabulary, Merges merges, BpeRules rules)
      : vocabulary_(std::move(vocabulary)),
        merges_(std::move(merges)),
        rules_(std::move(rules)),
        byte_tokens_(vocabulary_) {
    if (rules_.unknown) unknown_ = vocabulary_.id_of(*rules_.unknown);
  }

  void encode(std::string_view piece, std::vector<TokenId>& ids, TextBudget& budget) const override {
    if (rules_.whole_pieces)
      if (const auto id = vocabulary_.id_of(piece)) return ids.push_back(*id);
    MergedPiece merged(characters(piece, budget), merges_);
    merged.merge_all();
    merged.append_to(ids);
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  // Returns a token for every character; characters without a token are treated as `rules_` say.
  std::vector<TokenId> characters(std::string_view piece, TextBudget& budget) const {
    std::vector<TokenId> ids;
    ids.reserve(piece.size());
    bool unknown = false;  // an unknown token has yet to be appended
    std::string spelled;
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t begin = at;
      next_character(piece, at);
      std::string_view character = piece.substr(begin, at - begin);
      if (!rules_.prefix.empty() || !rules_.suffix.empty()) {
        spelled = begin > 0 ? rules_.prefix : std::string();
        spelled += character;
        if (at == piece.size()) spelled += rules_.suffix;
        budget.spend(spelled.size());
        character = spelled;
      }
      if (const auto id = vocabulary_.id_of(character)) {
        if (unknown) ids.push_back(*unknown_);
        unknown = false;
        ids.push_back(*id);
      } else if (rules_.byte_fallback && byte_tokens_.append(character, ids)) {
        continue;  // a pending unknown token follows these bytes, as in the `tokenizers` package
      } else if (rules_.unknown) {
        if (!unknown_)
          throw std::runtime_error("unk_token " + in_quotes(*rules_.unknown) + " is not in the vocabulary");
        if (unknown && !rules_.fuse_unknown) ids.push_back(*unknown_);
        unknown = true;
      }
    }
    if (unknown) ids.push_back(*unknown_);
    return ids;
  }

  Vocabulary vocabulary_;
  Merges merges_;
  BpeRules rules_;
  std::optional<TokenId> unknown_;
  ByteTokens byte_tokens_;
};

Vocabulary read_vocabulary(const JsonPlace& place) {
  std::size_t bytes = 0;
  for (const auto& [token, id] : place.object()) bytes += token.size();
  Vocabulary vocabulary(bytes);
  for (const auto& [token, value] : place.object()) {
    const JsonPlace id_place(value, place.key() + "[" + in_quotes(token) + "]");
    const TokenId id = to_int(id_place.whole(0, kMaxTokens - 1));
    if (vocabulary.id_of(token)) id_place.fail("is there twice");
    if (const auto other = vocabulary.token(id))
      id_place.fail(fmt::format("has id {}, as {} has", id, in_quotes(*other)));
    vocabulary.add(token, id);
  }
  return vocabulary;
}

// Reads "a b" or ["a", "b"].
std::pair<std::string_view, std::string_view> read_pair(const JsonPlace& place) {
  if (place.value().is_array()) {
    const std::vector<JsonPlace> pair = place.items(2);
    if (pair.size() != 2) place.fail("is not a pair");
    return {pair[0].text(), pair[1].text()};
  }
  const std::string_view text = place.text();
  const std::size_t blank = text.find(' ');
  if (blank == std::string_view::npos || text.find(' ', blank + 1) != std::string_view::npos)
    place.fail(in_quotes(text) + " is not two tokens with a space between");
  return {text.substr(0, blank), text.substr(blank + 1)};
}

TokenId token_of(const Vocabulary& vocabulary, std::string_view token, const JsonPlace& place) {
  const auto id = vocabulary.id_of(token);
  if (!id) place.fail(in_quotes(token) + " is not in the vocabulary");
  return *id;
}

Merges read_merges(const JsonPlace& place, const Vocabulary& vocabulary, const std::string& prefix) {
  const simdjson::dom::array list = place.list();
  Merges merges(std::distance(list.begin(), list.end()));
  std::int32_t rank = 0;
  std::size_t index = 0;
  std::string joined;
  for (const JsonValue value : list) {
    const JsonPlace pair_place(value, fmt::format("{}[{}]", place.key(), index++));
    std::string_view text;
    if (value.get(text) == simdjson::SUCCESS && text.starts_with("#version")) continue;
    const auto [first, second] = read_pair(pair_place);
    if (second.size() < prefix.size())
      pair_place.fail(in_quotes(second) + " does not begin with continuing_subword_prefix");
    joined.assign(first).append(second.substr(prefix.size()));
    const TokenId left_id = token_of(vocabulary, first, pair_place),
                  right_id = token_of(vocabulary, second, pair_place);
    merges.put(pair_key(left_id, right_id), {rank++, token_of(vocabulary, joined, pair_place)});
  }
  return merges;
}

}  // namespace

std::unique_ptr<TokenModel> read_bpe(const JsonPlace& place) {
  if (const auto dropout = place.find("dropout"); dropout && dropout->number() != 0)
    dropout->fail("is not 0: tokens would be drawn at random");
  BpeRules rules;
  rules.fuse_unknown = place.flag("fuse_unk", false);
  rules.byte_fallback = place.flag("byte_fallback", false);
  rules.whole_pieces = place.flag("ignore_merges", false);
  if (const auto prefix = place.find("continuing_subword_prefix")) rules.prefix = prefix->text();
  if (const auto suffix = place.find("end_of_word_suffix")) rules.suffix = suffix->text();
  Vocabulary vocabulary = read_vocabulary(place.at("vocab"));
  if (const auto unknown = place.find("unk_token")) rules.unknown = unknown->text();
  Merges merges = read_merges(place.at("merges"), vocabulary, rules.prefix);
  return std::make_unique<Bpe>(std::move(vocabulary), std::move(merges), std::move(rules));
}

}  // namespace moescope
