// Cuts a text at the matches of a pattern.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tokenizer/json_place.h"
#include "core/tokenizer/pattern.h"

namespace moescope {

// Use of a match: it is removed, is a piece of its own, belongs to the piece before it or after it, or forms one piece
// with neighbouring matches.
enum class MatchUse : std::uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };
MatchUse read_match_use(const JsonPlace& place);

// Returns the parts of a text that are kept; some may be empty. `matches` covers the whole text in order
// (Pattern::Finder). Match::matches of the result has no meaning.
std::vector<Match> cut(const std::vector<Match>& matches, MatchUse use);

}  // namespace moescope
