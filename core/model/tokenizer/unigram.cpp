// The unigram model of SentencePiece: cuts a piece into the tokens with the largest sum of scores, by the Viterbi
// algorithm. T. Kudo, https://arxiv.org/abs/1804.10959.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "core/model/tokenizer/characters.h"
#include "core/model/tokenizer/flat_table.h"
#include "core/model/tokenizer/token_model.h"

namespace moescope {
namespace {

constexpr double kUnknownPenalty = 10;  // an unknown character scores this much below the lowest score of all tokens

class Unigram : public TokenModel {
 public:
  Unigram(const JsonPlace& place, std::size_t bytes) : vocabulary_(bytes), trie_(bytes) {
    read_tokens(place.at("vocab"));
    if (const auto unknown = place.find("unk_id"))
      unknown_ = to_int(unknown->whole(0, std::int64_t{vocabulary_.end()} - 1));
    if (place.flag("byte_fallback", false)) byte_tokens_.emplace(vocabulary_);
  }

  void encode(std::string_view piece, std::vector<TokenId>& ids, TextBudget& budget) const override {
    const std::vector<Best> best = best_paths(piece, budget);
    std::vector<std::string_view> parts;  // from the last to the first
    for (std::size_t end = piece.size(); end > 0;) {
      std::size_t begin = best[end].begin;
      // A run of unknown characters is one part.
      if (best[end].id == unknown_)
        while (begin > 0 && best[begin].id == unknown_) begin = best[begin].begin;
      parts.push_back(piece.substr(begin, end - begin));
      end = begin;
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) append_part(*part, ids);
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  struct Best {  // best way to cut the text up to the end of a character
    double score = 0;
    std::size_t begin = 0;  // first byte of its last token
    TokenId id = kUnreachedToken;
  };
  static constexpr TokenId kUnreachedToken = -1;

  void read_tokens(const JsonPlace& place) {
    for (const JsonValue value : place.list()) {
      const TokenId id = vocabulary_.end();
      const JsonPlace entry(value, fmt::format("{}[{}]", place.key(), id));
      const std::vector<JsonPlace> pair = entry.items(2);
      if (pair.size() != 2) entry.fail("is not a token and its score");
      if (id == kMaxTokens) place.fail(fmt::format("has more than {} tokens", kMaxTokens));
      const std::string_view token = pair[0].text();
      vocabulary_.add(token, id);
      if (!token.empty()) trie_.add(token, id);
      scores_.push_back(pair[1].number());
      lowest_ = std::min(lowest_, scores_.back());
    }
  }

  std::vector<Best> best_paths(std::string_view piece, TextBudget& budget) const {
    std::vector<Best> best(piece.size() + 1);
    for (std::size_t begin = 0; begin < piece.size();) {
      std::size_t character_end = begin;
      next_character(piece, character_end);
      const auto offer = [&, begin](std::size_t end, TokenId id, double score) {
        score += best[begin].score;
        if (best[end].id == kUnreachedToken || score > best[end].score) best[end] = {score, begin, id};
      };
      bool is_token = false;  // true if the character itself is a token
      const std::size_t read = trie_.visit_prefixes(piece.substr(begin), [&](std::size_t length, TokenId id) {
        offer(begin + length, id, scores_[id]);
        is_token |= begin + length == character_end;
      });
      constexpr std::size_t kStepsOfALookUp = 10;
      budget.spend(kStepsOfALookUp * read);
      if (!is_token) offer(character_end, required_unknown(), lowest_ - kUnknownPenalty);
      begin = character_end;
    }
    return best;
  }

  TokenId required_unknown() const {
    if (!unknown_) throw std::runtime_error("the text has a character that the vocabulary lacks, and unk_id is null");
    return *unknown_;
  }

  void append_part(std::string_view part, std::vector<TokenId>& ids) const {
    if (const auto id = vocabulary_.id_of(part)) return ids.push_back(*id);
    if (byte_tokens_ && byte_tokens_->append(part, ids)) return;
    ids.push_back(required_unknown());
  }

  Vocabulary vocabulary_;
  ByteTrie trie_;
  std::vector<double> scores_;  // by id
  double lowest_ = std::numeric_limits<double>::infinity();
  std::optional<TokenId> unknown_;
  std::optional<ByteTokens> byte_tokens_;  // nullopt without fallback to bytes
};

}  // namespace

std::unique_ptr<TokenModel> read_unigram(const JsonPlace& place) {
  std::size_t bytes = 0;
  for (const JsonValue value : place.at("vocab").list()) {
    std::string_view token;
    if (value.at(0).get(token) == simdjson::SUCCESS) bytes += token.size();
  }
  return std::make_unique<Unigram>(place, bytes);
}

}  // namespace moescope
