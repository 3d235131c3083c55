// Metaspace: blanks are written as the character U+2581, and this character may be added before a text.
#pragma once

#include <cstdint>
#include <string>

#include "core/model/tokenizer/json_place.h"

namespace moescope {

struct MetaspaceRules {
  enum class Prepend : std::uint8_t { always, first, never };  // first: only at the start of the whole text
  std::string replacement;                                     // one character
  Prepend prepend = Prepend::always;
  bool split = true;  // a new piece begins at each replacement character
};
MetaspaceRules read_metaspace(const JsonPlace& place);  // throws Unreadable naming the key

}  // namespace moescope
