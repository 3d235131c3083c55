#include "core/model/tokenizer/metaspace.h"

#include "core/model/tokenizer/characters.h"

namespace moescope {

MetaspaceRules read_metaspace(const JsonPlace& place) {
  using Prepend = MetaspaceRules::Prepend;
  MetaspaceRules rules;
  const JsonPlace replacement = place.at("replacement");
  rules.replacement = replacement.text();
  std::size_t at = 0;
  if (!rules.replacement.empty()) next_character(rules.replacement, at);
  if (at == 0 || at != rules.replacement.size()) replacement.fail("is not one character");
  rules.split = place.flag("split", true);
  const bool add = place.flag("add_prefix_space", true);  // key of older files
  const auto scheme = place.find("prepend_scheme");
  if (!add) rules.prepend = Prepend::never;
  if (scheme) rules.prepend = static_cast<Prepend>(scheme->one_of({"always", "first", "never"}));
  if (!add && rules.prepend != Prepend::never) scheme->fail("does not agree with add_prefix_space, which is false");
  return rules;
}

}  // namespace moescope
