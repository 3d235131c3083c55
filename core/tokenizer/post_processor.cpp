#include "core/tokenizer/post_processor.h"

namespace moescope {
namespace {

constexpr std::size_t kMostSpecial = 1000;

TokenId read_id(const JsonPlace& place) {
  return static_cast<TokenId>(place.whole(0, kMostTokens - 1));
}

void append_special(const JsonPlace& processor, const JsonPlace& special, std::vector<TokenId>& ids) {
  const std::string name(special.at("id").text());
  for (const JsonPlace& id : processor.at("special_tokens").at(name.c_str()).at("ids").items(kMostSpecial))
    ids.push_back(read_id(id));
}

SpecialTokens read_template(const JsonPlace& place) {
  SpecialTokens tokens;
  int texts = 0;
  for (const JsonPlace& piece : place.at("single").items(kMostSpecial)) {
    if (const auto special = piece.find("SpecialToken")) {
      append_special(place, *special, texts ? tokens.behind : tokens.before);
      continue;
    }
    const JsonPlace id = piece.at("Sequence").at("id");
    id.one_of({"A"});
    if (++texts > 1) id.fail("is in the template twice");
  }
  if (texts == 0) place.at("single").fail("has no place for the text");
  return tokens;
}

// Reads [token, id].
TokenId read_named_id(const JsonPlace& place) {
  const std::vector<JsonPlace> pair = place.items(2);
  if (pair.size() != 2) place.fail("is not a token and its id");
  return read_id(pair[1]);
}

SpecialTokens read_sequence(const JsonPlace& place) {
  SpecialTokens all;
  for (const JsonPlace& step : place.items(kMostSpecial)) {
    const SpecialTokens tokens = read_special_tokens(step);
    all.before.insert(all.before.begin(), tokens.before.begin(), tokens.before.end());
    all.behind.insert(all.behind.end(), tokens.behind.begin(), tokens.behind.end());
  }
  return all;
}

}  // namespace

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

}  // namespace moescope
