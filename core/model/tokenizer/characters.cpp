#include "core/model/tokenizer/characters.h"

#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <array>

#include "core/files/text/text_encoding.h"
#include "core/numerics/index.h"

namespace moescope {
namespace {

constexpr char32_t kFirstOfOthers = 0x100;

struct ByteAlphabet {
  std::array<std::string, 256> character;         // by byte, UTF-8
  std::array<int, 2 * kFirstOfOthers> byte_of{};  // by character; -1 if it is not in the alphabet

  ByteAlphabet() {
    byte_of.fill(-1);
    char32_t other = kFirstOfOthers;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      const char32_t c = printable ? static_cast<char32_t>(byte) : other++;
      append_character(character[byte], c);
      byte_of[c] = byte;
    }
  }
};

const ByteAlphabet& byte_alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

}  // namespace

bool is_white_space(char32_t c) {
  return u_isUWhiteSpace(static_cast<UChar32>(c));
}

bool is_word_character(char32_t c) {
  const auto point = static_cast<UChar32>(c);
  return u_isUAlphabetic(point) || (U_GET_GC_MASK(point) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) ||
         u_hasBinaryProperty(point, UCHAR_JOIN_CONTROL);
}

bool is_numeric(char32_t c) {
  return U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_N_MASK;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return c > ' ' && c < 0x7f && !u_isalnum(static_cast<UChar32>(c));
  return U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_P_MASK;
}

bool is_combining_mark(char32_t c) {
  return U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_M_MASK;
}

void append_lower(std::string& to, char32_t c) {
  constexpr char32_t kCapitalIWithDot = 0x130;  // the only character whose lower case has two characters
  if (c == kCapitalIWithDot)
    to += "i\u0307";
  else
    append_character(to, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
}

char32_t next_character(std::string_view text, std::size_t& at) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  UChar32 c;
  const std::int64_t length = text.size();
  std::int64_t i = at;
  U8_NEXT_OR_FFFD(bytes, i, length, c);
  at = i;
  return static_cast<char32_t>(c);
}

char32_t previous_character(std::string_view text, std::size_t& at) {
  const std::size_t first = at - std::min<std::size_t>(at, U8_MAX_LENGTH);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data()) + first;
  std::int32_t i = to_int(at - first);
  UChar32 c;
  U8_PREV_OR_FFFD(bytes, 0, i, c);
  at = first + i;
  return static_cast<char32_t>(c);
}

void append_character(std::string& to, char32_t c) {
  char bytes[U8_MAX_LENGTH];
  int n = 0;
  U8_APPEND_UNSAFE(bytes, n, c);
  to.append(bytes, n);
}

std::string valid_utf8(std::string_view text) {
  if (not_utf8_at(text) == std::string_view::npos) return std::string(text);
  std::string valid;
  valid.reserve(text.size() + text.size() / 8);
  for (std::size_t at = 0; at < text.size();) append_character(valid, next_character(text, at));
  return valid;
}

void append_as_characters(std::string& to, std::string_view bytes) {
  const ByteAlphabet& alphabet = byte_alphabet();
  for (const char byte : bytes) to += alphabet.character[static_cast<unsigned char>(byte)];
}

bool append_as_bytes(std::string& to, std::string_view text) {
  const ByteAlphabet& alphabet = byte_alphabet();
  const std::size_t before = to.size();
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (c >= alphabet.byte_of.size() || alphabet.byte_of[c] < 0) {
      to.resize(before);
      return false;
    }
    to += static_cast<char>(alphabet.byte_of[c]);
  }
  return true;
}

}  // namespace moescope
