#include "core/tokenizer/charsmap.h"

#include <unicode/brkiter.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "core/io/base64.h"
#include "core/tokenizer/characters.h"

namespace moescope {
namespace {

// A unit of the double array: the label of the edge to it, whether a word ends there, and the offset of its children.
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

}  // namespace

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

std::string Charsmap::mapped(std::string_view text) const {
  UErrorCode error = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), error));
  if (U_FAILURE(error)) throw std::runtime_error(std::string("ICU finds no characters: ") + u_errorName(error));
  const auto units =
      icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<std::int32_t>(text.size())));
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

}  // namespace moescope
