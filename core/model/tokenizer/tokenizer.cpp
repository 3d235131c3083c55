#include "core/model/tokenizer/tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/files/input_file.h"
#include "core/files/text/json_line.h"
#include "core/files/text/name_map.h"
#include "core/model/tokenizer/characters.h"
#include "core/model/tokenizer/flat_table.h"
#include "core/model/tokenizer/json_place.h"
#include "core/model/tokenizer/text_steps.h"
#include "core/model/tokenizer/token_model.h"

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

// Tokens that are found in a text before it is cut into pieces: the "added_tokens" of tokenizer.json, such as
// "<|endoftext|>".
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
  const AddedToken* find(TokenId id) const {  // nullptr if no added token has this id
    const auto found = tokens_.find(id);
    return found != tokens_.end() ? &found->second : nullptr;
  }
  std::optional<TokenId> id_of(std::string_view content) const {
    const auto found = ids_.find(std::string(content));
    return found != ids_.end() ? std::optional(found->second) : std::nullopt;
  }
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
    place.at("content").fail(fmt::format("has more than {} bytes", kLongestAdded));
  token.single_word = place.flag("single_word", false);
  token.left_strip = place.flag("lstrip", false);
  token.right_strip = place.flag("rstrip", false);
  token.special = place.flag("special", false);
  token.normalized = place.flag("normalized", !token.special);
  token.found_as = token.normalized ? normalized(token.content) : token.content;

  std::optional<TokenId> id = id_of(token.content);
  if (!id) id = model.id_of(token.content);
  if (!id) id = std::max(end_, to_int(model.distinct()));
  if (*id >= kMaxTokens) place.fail(fmt::format("there are more than {} tokens", kMaxTokens));
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
    trie.visit_prefixes(text.substr(at), [&](std::size_t length, TokenId id) { found = {at, at + length, id}; });
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

// A cache of the tokens of pieces, because most words of a text occur again.
class WordCache {
 public:
  void append(const TokenModel& model, std::string_view piece, TextBudget& budget, std::vector<TokenId>& ids) {
    if (const auto known = words_.find(piece); known != words_.end()) {
      ids.insert(ids.end(), known->second.begin(), known->second.end());
      return;
    }
    const std::size_t before = ids.size();
    model.encode(piece, ids, budget);
    if (piece.size() > kLongest) return;
    if (words_.size() == kMaxWords) words_.clear();
    words_.emplace(piece, std::vector<TokenId>(ids.begin() + before, ids.end()));
  }

 private:
  static constexpr std::size_t kLongest = 128;  // bytes
  static constexpr std::size_t kMaxWords = std::size_t{1} << 16;
  NameMap<std::vector<TokenId>> words_;
};

constexpr std::size_t kMaxSpecial = 1000;  // items of a template, and tokens that it adds

TokenId read_id(const JsonPlace& place) {
  return to_int(place.whole(0, kMaxTokens - 1));
}

void append_special(const JsonPlace& processor, const JsonPlace& special, std::vector<TokenId>& ids) {
  const std::string name(special.at("id").text());
  for (const JsonPlace& id : processor.at("special_tokens").at(name.c_str()).at("ids").items(kMaxSpecial))
    ids.push_back(read_id(id));
}

void require_few(const JsonPlace& place, const SpecialTokens& tokens) {
  if (tokens.before.size() + tokens.after.size() > kMaxSpecial)
    place.fail(fmt::format("adds more than {} tokens to a text", kMaxSpecial));
}

SpecialTokens read_template(const JsonPlace& place) {
  SpecialTokens tokens;
  int texts = 0;
  for (const JsonPlace& piece : place.at("single").items(kMaxSpecial)) {
    require_few(place, tokens);
    if (const auto special = piece.find("SpecialToken")) {
      append_special(place, *special, texts ? tokens.after : tokens.before);
      continue;
    }
    const JsonPlace id = piece.at("Sequence").at("id");
    id.one_of({"A"});
    if (++texts > 1) id.fail("is in the template twice");
  }
  require_few(place, tokens);
  if (texts == 0) place.at("single").fail("has no place for the text");
  return tokens;
}

SpecialTokens read_special_tokens(const JsonPlace& place);

// Reads [token, id].
TokenId read_named_id(const JsonPlace& place) {
  const std::vector<JsonPlace> pair = place.items(2);
  if (pair.size() != 2) place.fail("is not a token and its id");
  return read_id(pair[1]);
}

SpecialTokens read_sequence(const JsonPlace& place) {
  SpecialTokens all;
  for (const JsonPlace& step : place.items(kMaxSpecial)) {
    const SpecialTokens tokens = read_special_tokens(step);
    all.before.insert(all.before.begin(), tokens.before.begin(), tokens.before.end());
    all.after.insert(all.after.end(), tokens.after.begin(), tokens.after.end());
    require_few(place, all);
  }
  return all;
}

// Reads TemplateProcessing (its form for one text), ByteLevel (which adds no token), BertProcessing, RobertaProcessing
// and Sequence. Each processor of a Sequence adds its tokens around those of the earlier ones. Throws Unreadable naming
// the key.
SpecialTokens read_special_tokens(const JsonPlace& place) {
  switch (
      place.at("type").one_of({"TemplateProcessing", "ByteLevel", "BertProcessing", "RobertaProcessing", "Sequence"})) {
    case 0:
      return read_template(place);
    case 1:
      return {};
    case 2:
    case 3:
      return {{read_named_id(place.at("cls"))}, {read_named_id(place.at("sep"))}};
    default:
      return read_sequence(place.at("processors"));
  }
}

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{64} << 20;  // the largest published files have 35 MB

std::optional<JsonPlace> find_part(const JsonFields& file, const char* key) {
  const JsonValue* value = member(file, {key});
  return value ? std::optional(JsonPlace(*value, key)) : std::nullopt;
}

// Returns act(); puts `name` before the message of its std::runtime_error.
auto with_name(const std::string& name, const auto& act) {
  try {
    return act();
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(name + ": " + error.what());
  }
}

template <class Part>
Part read_part(const JsonFields& file, const char* key, Part (*read)(const JsonPlace&)) {
  const auto place = find_part(file, key);
  return place ? read(*place) : Part();
}

}  // namespace

struct Tokenizer::Parts {
  std::string name;
  TextBudget added_budget;  // for normalizing the added tokens
  Normalizer normalizer;    // this and the next two are empty if the file has none
  PreTokenizer pre_tokenizer;
  TokenDecoder decoder;
  std::unique_ptr<TokenModel> model;
  AddedTokens added;
  SpecialTokens around;
  mutable std::mutex cutting;  // guards `words`
  mutable WordCache words;

  Parts(const JsonFields& file, std::size_t file_bytes, std::string file_name)
      : name(std::move(file_name)),
        added_budget(file_bytes),
        normalizer(read_part(file, "normalizer", read_normalizer)),
        pre_tokenizer(read_part(file, "pre_tokenizer", read_pre_tokenizer)),
        decoder(read_part(file, "decoder", read_decoder)),
        model(read_part(file, "model", read_token_model)),
        added(find_part(file, "added_tokens"), required_model(),
              [this](std::string_view text) { return normalized(text, added_budget); }),
        around(read_part(file, "post_processor", read_special_tokens)) {}

  const Vocabulary& required_model() const {
    if (!model) throw Unreadable("model: is missing");
    return model->vocabulary();
  }

  std::string normalized(std::string_view text, TextBudget& budget) const {
    NormalizedText out{std::string(text), 0};
    if (normalizer) normalizer(out, budget);
    return std::move(out.text);
  }

  void append_pieces(std::string_view text, std::size_t start_bytes, TextBudget& budget,
                     std::vector<TokenId>& ids) const {
    PieceList list{std::string(text), {{0, text.size(), start_bytes}}};
    if (pre_tokenizer) pre_tokenizer(list, budget);
    for (const Piece& piece : list.pieces) words.append(*model, list.text_of(piece), budget, ids);
  }

  // Appends the ids of a text between two added tokens that are searched for in the original text.
  void append_between(NormalizedText text, TextBudget& budget, std::vector<TokenId>& ids) const {
    if (normalizer) normalizer(text, budget);
    for (const AddedTokens::Part& part : added.split(text.text, true)) {
      if (part.id)
        ids.push_back(*part.id);
      else
        append_pieces(std::string_view(text.text).substr(part.begin, part.end - part.begin),
                      text.start_bytes - std::min(text.start_bytes, part.begin), budget, ids);
    }
  }

  std::vector<TokenId> ids_of(const std::string& text) const {
    std::vector<TokenId> ids;
    ids.reserve(text.size() / 3);
    TextBudget budget(text.size());
    std::size_t first_bytes = 0;
    if (!text.empty()) next_character(text, first_bytes);
    const std::lock_guard lock(cutting);
    for (const AddedTokens::Part& part : added.split(text, false)) {
      if (part.id)
        ids.push_back(*part.id);
      else
        append_between({text.substr(part.begin, part.end - part.begin), part.begin == 0 ? first_bytes : 0}, budget,
                       ids);
    }
    return ids;
  }

  std::optional<std::string> spelling(TokenId id) const {
    if (const AddedToken* token = added.find(id)) return token->content;
    const auto token = model->vocabulary().token(id);
    return token ? std::optional(std::string(*token)) : std::nullopt;
  }
};

Tokenizer::Tokenizer(const std::string& path) : Tokenizer(read_file(path, kMaxFileBytes, "tokenizer"), path) {}

Tokenizer::Tokenizer(std::string_view json, const std::string& name) {
  parts_ = with_name(name, [&] {
    JsonLines parser;
    return std::make_unique<Parts>(parser.parse(json), json.size(), name);
  });
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, SpecialTokenUse use) const {
  return with_name(parts_->name, [&] {
    std::vector<TokenId> ids = parts_->ids_of(valid_utf8(text));
    if (use == SpecialTokenUse::without) return ids;
    ids.insert(ids.begin(), parts_->around.before.begin(), parts_->around.before.end());
    ids.insert(ids.end(), parts_->around.after.begin(), parts_->around.after.end());
    return ids;
  });
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, SpecialTokenUse use) const {
  return with_name(parts_->name, [&] {
    std::vector<std::string> tokens;
    for (const TokenId id : ids) {
      const AddedToken* added = parts_->added.find(id);
      if (added && added->special && use == SpecialTokenUse::without) continue;
      if (added)
        tokens.push_back(added->found_as);
      else if (const auto token = parts_->model->vocabulary().token(id))
        tokens.emplace_back(*token);
    }
    std::size_t bytes = 0;
    for (const std::string& token : tokens) bytes += token.size();
    TextBudget budget(bytes);
    if (parts_->decoder) parts_->decoder(tokens, false, budget);
    std::string text;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && !parts_->decoder) text += ' ';
      text += tokens[i];
    }
    return text;
  });
}

std::optional<std::string> Tokenizer::spelling(std::int32_t id) const {
  return parts_->spelling(id);
}

std::optional<std::string> Tokenizer::bytes(std::int32_t id) const {
  const std::optional<std::string> token = parts_->spelling(id);
  if (!token || !parts_->decoder || parts_->added.find(id)) return token;
  return with_name(parts_->name, [&]() -> std::optional<std::string> {
    std::vector<std::string> tokens = {*token};
    TextBudget budget(token->size());
    parts_->decoder(tokens, true, budget);
    return tokens.front();
  });
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view spelling) const {
  const auto added = parts_->added.id_of(spelling);
  return added ? added : parts_->model->vocabulary().id_of(spelling);
}

const SpecialTokens& Tokenizer::special_tokens() const {
  return parts_->around;
}

void Tokenizer::set_special_tokens(SpecialTokens tokens) {
  parts_->around = std::move(tokens);
}

std::int32_t Tokenizer::end() const {
  return std::max(parts_->added.end(), parts_->model->vocabulary().end());
}

}  // namespace moescope
