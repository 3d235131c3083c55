#include "core/model/tokenizer/tokenizer.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "core/files/input_file.h"
#include "core/files/text/json_line.h"
#include "core/model/tokenizer/added_tokens.h"
#include "core/model/tokenizer/characters.h"
#include "core/model/tokenizer/decoder.h"
#include "core/model/tokenizer/json_place.h"
#include "core/model/tokenizer/normalizer.h"
#include "core/model/tokenizer/pre_tokenizer.h"
#include "core/model/tokenizer/token_model.h"

namespace moescope {
namespace {

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
    words_.emplace(piece, std::vector<TokenId>(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end()));
  }

 private:
  static constexpr std::size_t kLongest = 128;  // bytes
  static constexpr std::size_t kMaxWords = std::size_t{1} << 16;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view piece) const { return std::hash<std::string_view>()(piece); }
  };
  std::unordered_map<std::string, std::vector<TokenId>, Hash, std::equal_to<>> words_;
};

constexpr std::size_t kMaxSpecial = 1000;  // items of a template, and tokens that it adds

TokenId read_id(const JsonPlace& place) {
  return place.whole(0, kMaxTokens - 1);
}

void append_special(const JsonPlace& processor, const JsonPlace& special, std::vector<TokenId>& ids) {
  const std::string name(special.at("id").text());
  for (const JsonPlace& id : processor.at("special_tokens").at(name.c_str()).at("ids").items(kMaxSpecial))
    ids.push_back(read_id(id));
}

void require_few(const JsonPlace& place, const SpecialTokens& tokens) {
  if (tokens.before.size() + tokens.after.size() > kMaxSpecial)
    place.fail("adds more than " + std::to_string(kMaxSpecial) + " tokens to a text");
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
  TextBudget of_added;    // for normalizing the added tokens
  Normalizer normalizer;  // this and the next two are empty if the file has none
  PreTokenizer pre_tokenizer;
  TokenDecoder decoder;
  std::unique_ptr<TokenModel> model;
  AddedTokens added;
  SpecialTokens around;
  mutable std::mutex cutting;  // guards `words`
  mutable WordCache words;

  Parts(const JsonFields& file, std::size_t file_bytes, std::string file_name)
      : name(std::move(file_name)),
        of_added(file_bytes),
        normalizer(read_part(file, "normalizer", read_normalizer)),
        pre_tokenizer(read_part(file, "pre_tokenizer", read_pre_tokenizer)),
        decoder(read_part(file, "decoder", read_decoder)),
        model(read_part(file, "model", read_token_model)),
        added(find_part(file, "added_tokens"), required_model(),
              [this](std::string_view text) { return normalized(text, of_added); }),
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
