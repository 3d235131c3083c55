#include <unicode/brkiter.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "core/files/text/text_escape.h"
#include "core/model/tokenizer/characters.h"
#include "core/model/tokenizer/pattern.h"
#include "core/model/tokenizer/text_steps.h"
#include "core/numerics/index.h"

namespace moescope {
namespace {

// Fields of a unit of the double array: whether a word ends at its node, the label of the edge to the node, the value
// of a word (in the unit of a leaf), and the offset of the node's children.
bool has_leaf(std::uint32_t unit) {
  return unit >> 8 & 1;
}
std::uint32_t label(std::uint32_t unit) {
  return unit & (1U << 31 | 0xff);
}
std::uint32_t value(std::uint32_t unit) {
  return unit & ~(1U << 31);
}
std::size_t offset(std::uint32_t unit) {
  return std::size_t{unit >> 10} << ((unit & 1U << 9) >> 6);
}

// The character map of a SentencePiece model ("precompiled_charsmap"): texts and their replacements.
//
// It is the Base64 form of three parts: the size of the trie in bytes (32 bits, little-endian); the trie, a double
// array of 32-bit units with the layout of Darts-clone (https://github.com/s-yata/darts-clone); the replacements, each
// ended by a zero byte. The value of a word in the trie is the position of its replacement.
class Charsmap {
 public:
  explicit Charsmap(const JsonPlace& base64);  // throws Unreadable naming the key
  // Replaces every grapheme (a character as users see it) as a whole if it has at most 5 bytes and the map contains it
  // or a prefix of it; otherwise replaces its characters one by one.
  std::string operator()(std::string_view text) const;

 private:
  std::optional<std::string_view> replacement(std::string_view part) const;
  void append_mapped(std::string& to, std::string_view grapheme) const;
  std::vector<std::uint32_t> units_;
  std::string texts_;
};

Charsmap::Charsmap(const JsonPlace& base64) {
  constexpr std::size_t kSizeBytes = 4;
  std::string text(base64.text());
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  const std::optional<std::string> bytes = from_base64url(text);
  if (!bytes) base64.fail("is not Base64");
  std::uint32_t trie_bytes = 0;
  if (bytes->size() >= kSizeBytes) std::memcpy(&trie_bytes, bytes->data(), kSizeBytes);
  if (trie_bytes == 0 || trie_bytes % sizeof(std::uint32_t) || trie_bytes > bytes->size() - kSizeBytes)
    base64.fail("holds no trie of whole 32-bit units");
  units_.resize(trie_bytes / sizeof(std::uint32_t));
  std::memcpy(units_.data(), bytes->data() + kSizeBytes, trie_bytes);
  texts_ = valid_utf8(std::string_view(*bytes).substr(kSizeBytes + trie_bytes));
}

std::optional<std::string_view> Charsmap::replacement(std::string_view part) const {
  std::size_t node = offset(units_[0]);
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return std::nullopt;
    node ^= byte;
    if (node >= units_.size() || label(units_[node]) != byte) return std::nullopt;
    const std::uint32_t unit = units_[node];
    node ^= offset(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size() || value(units_[node]) > texts_.size()) return std::nullopt;
    const std::string_view text = std::string_view(texts_).substr(value(units_[node]));
    return text.substr(0, text.find('\0'));
  }
  return std::nullopt;
}

void Charsmap::append_mapped(std::string& to, std::string_view grapheme) const {
  constexpr std::size_t kLongestWhole = 5;  // bytes
  if (grapheme.size() <= kLongestWhole)
    if (const auto text = replacement(grapheme)) {
      to += *text;
      return;
    }
  for (std::size_t at = 0; at < grapheme.size();) {
    const std::size_t begin = at;
    next_character(grapheme, at);
    const std::string_view part = grapheme.substr(begin, at - begin);
    to += replacement(part).value_or(part);
  }
}

std::string Charsmap::operator()(std::string_view text) const {
  UErrorCode error = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), error));
  if (U_FAILURE(error)) throw std::runtime_error(std::string("ICU finds no characters: ") + u_errorName(error));
  const auto units = icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), to_int(text.size())));
  breaks->setText(units);
  std::string out, grapheme;
  std::int32_t begin = breaks->first();
  for (std::int32_t end = breaks->next(); end != icu::BreakIterator::DONE; begin = end, end = breaks->next()) {
    grapheme.clear();
    units.tempSubStringBetween(begin, end).toUTF8String(grapheme);
    append_mapped(out, grapheme);
  }
  return valid_utf8(out);
}

// Returns a normalizer that applies `rewritten` to the text. To find the new start_bytes, it applies `rewritten` also
// to the first start_bytes alone.
Normalizer rewriter(auto rewritten) {
  return [rewritten](NormalizedText& text, TextBudget& budget) {
    if (text.start_bytes > 0) text.start_bytes = rewritten(text.text.substr(0, text.start_bytes), budget).size();
    text.text = rewritten(text.text, budget);
    budget.require_size(text.text.size());
    constexpr std::size_t kStepsOfAByte = 10;
    budget.spend(kStepsOfAByte * text.text.size());
  };
}
// rewriter() for a function without a budget of its own, whose result is at most a few times longer than the text.
Normalizer bounded_rewriter(auto rewritten) {
  return rewriter([rewritten](const std::string& text, TextBudget&) { return rewritten(text); });
}

// Returns the normalizer to the form NFC, NFD, NFKC or NFKD.
Normalizer unicode_form(const icu::Normalizer2* (*instance)(UErrorCode&)) {
  const auto check = [](UErrorCode error) {
    if (U_FAILURE(error)) throw std::runtime_error(std::string("ICU cannot normalize: ") + u_errorName(error));
  };
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* form = instance(error);
  check(error);
  return bounded_rewriter([form, check](const std::string& text) {
    UErrorCode failure = U_ZERO_ERROR;
    std::string out;
    const std::int32_t bytes = to_int(text.size());
    icu::StringByteSink<std::string> sink(&out, bytes);
    form->normalizeUTF8(0, icu::StringPiece(text.data(), bytes), sink, nullptr, failure);
    check(failure);
    return out;
  });
}

std::string lower_case(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) append_lower(out, next_character(text, at));
  return out;
}

std::string without_accents(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();)
    if (const char32_t c = next_character(text, at); !is_combining_mark(c)) append_character(out, c);
  return out;
}

std::string stripped(const std::string& text, bool at_begin, bool at_end) {
  std::size_t begin = 0, end = text.size();
  for (std::size_t at = begin; at_begin && at < end && is_white_space(next_character(text, at));) begin = at;
  for (std::size_t at = end; at_end && at > begin && is_white_space(previous_character(text, at));) end = at;
  return text.substr(begin, end - begin);
}

std::string bytes_as_characters(const std::string& text) {
  std::string out;
  append_as_characters(out, text);
  return out;
}

Normalizer read_strip(const JsonPlace& place) {
  const bool at_begin = place.at("strip_left").flag(), at_end = place.at("strip_right").flag();
  return [at_begin, at_end](NormalizedText& text, TextBudget&) {
    text.start_bytes = stripped(text.text.substr(0, text.start_bytes), at_begin, false).size();
    text.text = stripped(text.text, at_begin, at_end);
  };
}

}  // namespace

Normalizer read_normalizer(const JsonPlace& place) {
  using Place = const JsonPlace&;
  return read_kind<Normalizer>(
      place, {{"NFC", [](Place) { return unicode_form(icu::Normalizer2::getNFCInstance); }},
              {"NFD", [](Place) { return unicode_form(icu::Normalizer2::getNFDInstance); }},
              {"NFKC", [](Place) { return unicode_form(icu::Normalizer2::getNFKCInstance); }},
              {"NFKD", [](Place) { return unicode_form(icu::Normalizer2::getNFKDInstance); }},
              {"Lowercase", [](Place) { return bounded_rewriter(lower_case); }},
              {"StripAccents", [](Place) { return bounded_rewriter(without_accents); }},
              {"Strip", read_strip},
              {"Replace", [](Place replace) { return rewriter(Replacement(replace)); }},
              {"Prepend",
               [](Place prepend) {
                 return bounded_rewriter([text = std::string(prepend.at("prepend").text())](const std::string& before) {
                   return before.empty() ? before : text + before;
                 });
               }},
              {"ByteLevel", [](Place) { return bounded_rewriter(bytes_as_characters); }},
              {"Precompiled", [](Place map) { return bounded_rewriter(Charsmap(map.at("precompiled_charsmap"))); }},
              {"Sequence", [](Place steps) { return read_steps(steps.at("normalizers"), read_normalizer); }}});
}

}  // namespace moescope
