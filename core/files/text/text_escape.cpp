#include "core/files/text/text_escape.h"

#include <fmt/core.h>
#include <unicode/utf.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace moescope {

constexpr std::string_view kLetters = "ntr\\", kEscaped = "\n\t\r\\";

std::string escape_bytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (const std::size_t known = kEscaped.find(c); known != std::string_view::npos)
      (text += '\\') += kLetters[known];
    else if (byte >= 0x20 && byte < 0x7f)
      text += c;
    else
      text += fmt::format("\\x{:02x}", byte);
  }
  return text;
}

std::optional<std::string> unescape_bytes(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      bytes += text[i];
      continue;
    }
    if (++i == text.size()) return std::nullopt;
    if (text[i] == 'x') {
      unsigned value = 0;
      if (i + 2 >= text.size()) return std::nullopt;
      const char* first = text.data() + i + 1;
      const auto [end, error] = std::from_chars(first, first + 2, value, 16);
      if (error != std::errc{} || end != first + 2) return std::nullopt;
      bytes += static_cast<char>(value);
      i += 2;
      continue;
    }
    const std::size_t known = kLetters.find(text[i]);
    if (known == std::string_view::npos) return std::nullopt;
    bytes += kEscaped[known];
  }
  return bytes;
}

namespace {

// Decodes the character that begins at text[i]; returns it with its number of bytes, 0 if it is not valid.
std::pair<UChar32, std::size_t> decode(std::string_view text, std::size_t i) {
  const std::size_t begin = i;
  UChar32 character = 0;
  U8_NEXT(text, i, text.size(), character);
  return {character, character < 0 ? 0 : i - begin};
}

// True for C0, DEL and C1; line and paragraph separators; marks, embeddings, overrides and isolates of direction; and
// the byte order mark.
bool is_control(UChar32 c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200e && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

std::string printable_text(std::string_view text, bool keeps_line_ends) {
  std::string shown;
  for (std::size_t i = 0; i < text.size();) {
    const auto [character, bytes] = decode(text, i);
    const std::string_view piece = text.substr(i, std::max<std::size_t>(bytes, 1));
    i += piece.size();
    if (bytes > 0 && (!is_control(character) || (keeps_line_ends && character == '\n')))
      shown += piece;
    else if (bytes < 2)
      shown += escape_bytes(piece);
    else
      shown += fmt::format("\\u{:04x}", static_cast<unsigned>(character));
  }
  return shown;
}

}  // namespace

std::size_t utf8_bytes(std::string_view text, std::size_t i) {
  return decode(text, i).second;
}

std::string printable(std::string_view text) {
  return printable_text(text, false);
}

std::string printable_lines(std::string_view text) {
  return printable_text(text, true);
}

namespace {

constexpr std::string_view kBase64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kUrlDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

std::string encoded(std::span<const std::uint8_t> bytes, std::string_view digits) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k) three = three << 8 | (k < n ? bytes[i + k] : 0u);
    for (std::size_t k = 0; k <= n; ++k) text += digits[three >> (18 - 6 * k) & 63];
  }
  return text;
}

}  // namespace

std::string base64(std::span<const std::uint8_t> bytes) {
  std::string text = encoded(bytes, kBase64Digits);
  text.append((4 - text.size() % 4) % 4, '=');
  return text;
}

std::string base64url(std::string_view bytes) {
  return encoded({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, kUrlDigits);
}

std::optional<std::string> from_base64url(std::string_view text) {
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  int n = 0;
  for (const char c : text) {
    const std::size_t digit = kUrlDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    n += 6;
    if (n < 8) continue;
    n -= 8;
    bytes += static_cast<char>(bits >> n);
    bits &= (1u << n) - 1;
  }
  return bytes;
}

}  // namespace moescope
