#include "core/tokenizer/cut.h"

#include <algorithm>

namespace moescope {
namespace {

std::vector<Match> joined_where_equal(const std::vector<Match>& matches) {
  std::vector<Match> parts;
  bool before = false;
  for (const Match& match : matches) {
    if (match.matches == before && !parts.empty())
      parts.back().end = match.end;
    else
      parts.push_back(match);
    before = match.matches;
  }
  return parts;
}

std::vector<Match> merged_with_previous(const std::vector<Match>& matches) {
  std::vector<Match> parts;
  bool before = false;
  for (const Match& match : matches) {
    if (match.matches && !before && !parts.empty())
      parts.back().end = match.end;
    else
      parts.push_back(match);
    before = match.matches;
  }
  return parts;
}

std::vector<Match> merged_with_next(const std::vector<Match>& matches) {
  std::vector<Match> parts;
  bool after = false;
  for (auto match = matches.rbegin(); match != matches.rend(); ++match) {
    if (match->matches && !after && !parts.empty())
      parts.back().begin = match->begin;
    else
      parts.push_back(*match);
    after = match->matches;
  }
  std::ranges::reverse(parts);
  return parts;
}

}  // namespace

MatchUse read_match_use(const JsonPlace& place) {
  return static_cast<MatchUse>(
      place.one_of({"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}));
}

std::vector<Match> cut(const std::vector<Match>& matches, MatchUse use) {
  if (use == MatchUse::merged_with_previous) return merged_with_previous(matches);
  if (use == MatchUse::merged_with_next) return merged_with_next(matches);
  if (use == MatchUse::contiguous) return joined_where_equal(matches);
  std::vector<Match> parts = matches;
  if (use == MatchUse::removed) std::erase_if(parts, [](const Match& match) { return match.matches; });
  return parts;
}

}  // namespace moescope
