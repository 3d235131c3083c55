// Cutting a text at matches of a pattern.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tokenizer/json_place.h"
#include "core/tokenizer/pattern.h"

namespace moescope {

// What becomes of a match: it is left out, it is a piece of its own, it ends the piece before it or begins the one
// after it, or neighbouring matches make one piece.
enum class MatchUse : std::uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };
MatchUse read_match_use(const JsonPlace& place);

// From all of a text in order (Pattern::Finder) the parts that are kept, some of them empty; matches of these mean
// nothing.
std::vector<Match> cut(const std::vector<Match>& matches, MatchUse use);

}  // namespace moescope
