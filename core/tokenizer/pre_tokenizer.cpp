#include "core/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/tokenizer/byte_alphabet.h"
#include "core/tokenizer/characters.h"
#include "core/tokenizer/metaspace.h"
#include "core/tokenizer/pattern.h"
#include "core/tokenizer/read_pattern.h"

namespace moescope {
namespace {

// Merges a part with the one before it if joins(match before it, match).
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
    return merged(matches, [](bool before, bool now) { return now && !before; });
  if (use == MatchUse::merged_with_next) return merged_with_next(matches);
  if (use == MatchUse::contiguous) return merged(matches, [](bool before, bool now) { return now == before; });
  std::vector<Match> parts = matches;
  if (use == MatchUse::removed) std::erase_if(parts, [](const Match& match) { return match.matches; });
  return parts;
}

// Cuts every piece: matches(text) returns the parts of a piece, and cut() applies `use` to them.
template <class Matches>
void cut_pieces(PieceList& list, MatchUse use, Matches matches) {
  std::vector<Piece> pieces;
  pieces.reserve(list.pieces.size());
  for (const Piece& piece : list.pieces)
    for (const Match& part : cut(matches(list.of(piece)), use))
      if (part.begin < part.end)
        pieces.push_back({piece.begin + part.begin, piece.begin + part.end,
                          piece.start_bytes - std::min(piece.start_bytes, part.begin)});
  list.pieces = std::move(pieces);
}

// Returns the characters for which `is` holds as matches, and the parts between them.
template <class Is>
std::vector<Match> matching_characters(std::string_view text, Is is) {
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
template <class Rewrite>
void rewrite_pieces(PieceList& list, Rewrite rewrite) {
  std::string text;
  text.reserve(list.text.size() + list.text.size() / 2);
  for (Piece& piece : list.pieces) {
    const std::size_t begin = text.size();
    rewrite(text, piece);
    piece.begin = begin;
    piece.end = text.size();
    piece.start_bytes = std::min<std::size_t>(piece.start_bytes, 1);
  }
  list.text = std::move(text);
}

class Split : public PreTokenizer {
 public:
  Split(Pattern pattern, MatchUse use, bool invert) : pattern_(std::move(pattern)), use_(use), invert_(invert) {}
  void apply(PieceList& list) const override {
    Pattern::Finder finder(pattern_);
    if (!invert_) return cut_pieces(list, use_, [&](std::string_view text) { return finder.find(text); });
    cut_pieces(list, use_, [&](std::string_view text) {
      std::vector<Match> matches = finder.find(text);
      for (Match& match : matches) match.matches = !match.matches;
      return matches;
    });
  }

 private:
  Pattern pattern_;
  MatchUse use_;
  bool invert_;
};

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex) : add_prefix_space_(add_prefix_space) {
    // The expression of GPT-2.
    constexpr const char* kWords = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
    if (use_regex) split_.emplace(Pattern::regex(kWords), MatchUse::isolated, false);
  }
  void apply(PieceList& list) const override {
    if (add_prefix_space_) {
      rewrite_pieces(list, [&](std::string& out, const Piece& piece) {
        if (list.text[piece.begin] != ' ') out += ' ';
        out += list.of(piece);
      });
    }
    if (split_) split_->apply(list);
    rewrite_pieces(list, [&](std::string& out, const Piece& piece) { append_as_characters(out, list.of(piece)); });
  }

 private:
  bool add_prefix_space_;
  std::optional<Split> split_;
};

class Metaspace : public PreTokenizer {
 public:
  explicit Metaspace(MetaspaceRules rules) : rules_(std::move(rules)) {}
  void apply(PieceList& list) const override {
    rewrite_pieces(list, [&](std::string& out, const Piece& piece) {
      const std::string_view text = list.of(piece);
      if (is_to_prepend(piece) && !text.starts_with(' ') && !text.starts_with(rules_.replacement))
        out += rules_.replacement;
      for (const char c : text) c == ' ' ? out += rules_.replacement : out += c;
    });
    if (!rules_.split) return;
    Pattern::Finder finder(mark_);
    cut_pieces(list, MatchUse::merged_with_next, [&](std::string_view text) { return finder.find(text); });
  }

 private:
  bool is_to_prepend(const Piece& piece) const {
    using Prepend = MetaspaceRules::Prepend;
    return rules_.prepend == Prepend::always || (rules_.prepend == Prepend::first && piece.start_bytes > 0);
  }
  MetaspaceRules rules_;
  Pattern mark_ = Pattern::literal(rules_.replacement);
};

// Cuts at characters of a class.
class CutCharacters : public PreTokenizer {
 public:
  using Is = bool (*)(char32_t);
  CutCharacters(Is is, MatchUse use) : is_(is), use_(use) {}
  void apply(PieceList& list) const override {
    cut_pieces(list, use_, [&](std::string_view text) { return matching_characters(text, is_); });
  }

 private:
  Is is_;
  MatchUse use_;
};

// Cuts into runs of word characters and runs of characters that are neither word characters nor blanks.
class Whitespace : public PreTokenizer {
 public:
  void apply(PieceList& list) const override {
    cut_pieces(list, MatchUse::removed, [](std::string_view text) {
      std::vector<Match> runs;
      Kind last = Kind::blank;
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = at;
        const Kind kind = kind_of(next_character(text, at));
        if (kind == Kind::blank || kind != last)
          runs.push_back({begin, at, kind == Kind::blank});
        else
          runs.back().end = at;
        last = kind;
      }
      return runs;
    });
  }

 private:
  enum class Kind : std::uint8_t { blank, word, other };
  static Kind kind_of(char32_t c) {
    return is_word_character(c) ? Kind::word : is_white_space(c) ? Kind::blank : Kind::other;
  }
};

class PreTokenizerSequence : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(const JsonPlace& place) {
    constexpr std::size_t kMost = 100;
    for (const JsonPlace& step : place.items(kMost)) steps_.push_back(read_pre_tokenizer(step));
  }
  void apply(PieceList& list) const override {
    for (const auto& step : steps_) step->apply(list);
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

std::unique_ptr<PreTokenizer> read_digits(const JsonPlace& place) {
  const bool single = place.flag("individual_digits", false);
  return std::make_unique<CutCharacters>(is_numeric, single ? MatchUse::isolated : MatchUse::contiguous);
}

std::unique_ptr<PreTokenizer> read_punctuation(const JsonPlace& place) {
  const auto use = place.find("behavior");
  return std::make_unique<CutCharacters>(is_punctuation, use ? read_match_use(*use) : MatchUse::isolated);
}

}  // namespace

std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonPlace& place) {
  switch (place.at("type").one_of(
      {"ByteLevel", "Split", "Metaspace", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit", "Sequence"})) {
    case 0:
      return std::make_unique<ByteLevel>(place.flag("add_prefix_space", true), place.flag("use_regex", true));
    case 1:
      return std::make_unique<Split>(read_pattern(place.at("pattern")), read_match_use(place.at("behavior")),
                                     place.flag("invert", false));
    case 2:
      return std::make_unique<Metaspace>(read_metaspace(place));
    case 3:
      return read_digits(place);
    case 4:
      return read_punctuation(place);
    case 5:
      return std::make_unique<Whitespace>();
    case 6:
      return std::make_unique<CutCharacters>(is_white_space, MatchUse::removed);
    default:
      return std::make_unique<PreTokenizerSequence>(place.at("pretokenizers"));
  }
}

}  // namespace moescope
