#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/model/tokenizer/characters.h"
#include "core/model/tokenizer/pattern.h"
#include "core/model/tokenizer/text_steps.h"

namespace moescope {
namespace {

// Merges each part with the part before it if joins(true if the part before is a match, true if this part is a match)
// returns true.
std::vector<Match> merged(const std::vector<Match>& matches, bool (*joins)(bool, bool)) {
  std::vector<Match> parts;
  bool before = false;
  for (const Match& match : matches) {
    if (!parts.empty() && joins(before, match.matches))
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

// Use of a match: it is removed, is a piece of its own, belongs to the piece before it or after it, or forms one piece
// with neighbouring matches.
enum class MatchUse : std::uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

MatchUse read_match_use(const JsonPlace& place) {
  return static_cast<MatchUse>(
      place.one_of({"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}));
}

// Returns the parts of a text that are kept; some may be empty. `matches` covers the whole text in order
// (Pattern::Finder). Match::matches of the result has no meaning.
std::vector<Match> cut(const std::vector<Match>& matches, MatchUse use) {
  if (use == MatchUse::merged_with_previous)
    return merged(matches, [](bool was_match, bool is_match) { return is_match && !was_match; });
  if (use == MatchUse::merged_with_next) return merged_with_next(matches);
  if (use == MatchUse::contiguous)
    return merged(matches, [](bool was_match, bool is_match) { return is_match == was_match; });
  std::vector<Match> parts = matches;
  if (use == MatchUse::removed) std::erase_if(parts, [](const Match& match) { return match.matches; });
  return parts;
}

// Cuts every piece: matches(text) returns the parts of a piece, and cut() applies `use` to them.
void cut_pieces(PieceList& list, MatchUse use, const auto& matches) {
  std::vector<Piece> pieces;
  pieces.reserve(list.pieces.size());
  for (const Piece& piece : list.pieces)
    for (const Match& part : cut(matches(list.text_of(piece)), use))
      if (part.begin < part.end)
        pieces.push_back({piece.begin + part.begin, piece.begin + part.end,
                          piece.start_bytes - std::min(piece.start_bytes, part.begin)});
  list.pieces = std::move(pieces);
}

// Returns every character for which `is` returns true as a match, and the parts between these characters.
std::vector<Match> matching_characters(std::string_view text, bool (*is)(char32_t)) {
  std::vector<Match> matches;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (!is(next_character(text, at))) continue;
    if (done < begin) matches.push_back({done, begin, false});
    matches.push_back({begin, at, true});
    done = at;
  }
  if (done < text.size()) matches.push_back({done, text.size(), false});
  return matches;
}

// Replaces the text of every piece: rewrite(out, piece) appends the new text.
void rewrite_pieces(PieceList& list, const TextBudget& budget, const auto& rewrite) {
  std::string text;
  text.reserve(list.text.size() + list.text.size() / 2);
  for (Piece& piece : list.pieces) {
    const std::size_t begin = text.size();
    rewrite(text, piece);
    piece.begin = begin;
    piece.end = text.size();
    budget.require_size(text.size());
    piece.start_bytes = std::min<std::size_t>(piece.start_bytes, 1);
  }
  list.text = std::move(text);
}

// Cuts where the pattern matches, or, if `invert`, where it does not match.
PreTokenizer split_at(Pattern pattern, MatchUse use, bool invert = false) {
  return [pattern = std::move(pattern), use, invert](PieceList& list, TextBudget& budget) {
    Pattern::Finder finder(pattern);
    cut_pieces(list, use, [&](std::string_view text) {
      std::vector<Match> matches = finder.find(text, budget);
      for (Match& match : matches) match.matches = match.matches != invert;
      return matches;
    });
  };
}

PreTokenizer byte_level(bool add_prefix_space, bool use_regex) {
  // The regular expression of GPT-2.
  constexpr const char* kWords = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  PreTokenizer split;
  if (use_regex) split = split_at(Pattern::regex(kWords), MatchUse::isolated);
  return [add_prefix_space, split](PieceList& list, TextBudget& budget) {
    if (add_prefix_space) {
      rewrite_pieces(list, budget, [&](std::string& out, const Piece& piece) {
        if (list.text[piece.begin] != ' ') out += ' ';
        out += list.text_of(piece);
      });
    }
    if (split) split(list, budget);
    rewrite_pieces(list, budget,
                   [&](std::string& out, const Piece& piece) { append_as_characters(out, list.text_of(piece)); });
  };
}

PreTokenizer metaspace(const MetaspaceRules& rules) {
  PreTokenizer split;
  if (rules.split) split = split_at(Pattern::literal(rules.replacement), MatchUse::merged_with_next);
  return [rules, split](PieceList& list, TextBudget& budget) {
    rewrite_pieces(list, budget, [&](std::string& out, const Piece& piece) {
      using Prepend = MetaspaceRules::Prepend;
      const bool prepends =
          rules.prepend == Prepend::always || (rules.prepend == Prepend::first && piece.start_bytes > 0);
      const std::string_view text = list.text_of(piece);
      if (prepends && !text.starts_with(' ') && !text.starts_with(rules.replacement)) out += rules.replacement;
      for (const char c : text) c == ' ' ? out += rules.replacement : out += c;
    });
    if (split) split(list, budget);
  };
}

// Cuts at the characters for which `is` returns true.
PreTokenizer split_at(bool (*is)(char32_t), MatchUse use) {
  return [is, use](PieceList& list, TextBudget&) {
    cut_pieces(list, use, [is](std::string_view text) { return matching_characters(text, is); });
  };
}

enum class CharacterKind : std::uint8_t { blank, word, other };
CharacterKind kind_of(char32_t c) {
  if (is_word_character(c)) return CharacterKind::word;
  if (is_white_space(c)) return CharacterKind::blank;
  return CharacterKind::other;
}

// Cuts into runs of word characters and runs of characters that are neither word characters nor blanks.
void split_words(PieceList& list, TextBudget&) {
  cut_pieces(list, MatchUse::removed, [](std::string_view text) {
    std::vector<Match> runs;
    CharacterKind last = CharacterKind::blank;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      const CharacterKind kind = kind_of(next_character(text, at));
      if (kind == CharacterKind::blank || kind != last)
        runs.push_back({begin, at, kind == CharacterKind::blank});
      else
        runs.back().end = at;
      last = kind;
    }
    return runs;
  });
}

PreTokenizer read_digits(const JsonPlace& place) {
  const bool single = place.flag("individual_digits", false);
  return split_at(is_numeric, single ? MatchUse::isolated : MatchUse::contiguous);
}

PreTokenizer read_punctuation(const JsonPlace& place) {
  const auto use = place.find("behavior");
  return split_at(is_punctuation, use ? read_match_use(*use) : MatchUse::isolated);
}

}  // namespace

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

PreTokenizer read_pre_tokenizer(const JsonPlace& place) {
  using Place = const JsonPlace&;
  return read_kind<PreTokenizer>(
      place,
      {{"ByteLevel",
        [](Place bytes) { return byte_level(bytes.flag("add_prefix_space", true), bytes.flag("use_regex", true)); }},
       {"Split",
        [](Place split) {
          return split_at(read_pattern(split.at("pattern")), read_match_use(split.at("behavior")),
                          split.flag("invert", false));
        }},
       {"Metaspace", [](Place rules) { return metaspace(read_metaspace(rules)); }},
       {"Digits", read_digits},
       {"Punctuation", read_punctuation},
       {"Whitespace", [](Place) { return PreTokenizer(split_words); }},
       {"WhitespaceSplit", [](Place) { return split_at(is_white_space, MatchUse::removed); }},
       {"Sequence", [](Place steps) { return read_steps(steps.at("pretokenizers"), read_pre_tokenizer); }}});
}

}  // namespace moescope
