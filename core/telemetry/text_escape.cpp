#include "core/telemetry/text_escape.h"

#include <charconv>
#include <cstdio>

namespace moescope {

std::string escape_bytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else if (c == '\r') {
      text += "\\r";
    } else if (c == '\\') {
      text += "\\\\";
    } else if (byte >= 0x20 && byte < 0x7f) {
      text += c;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
      text += escaped;
    }
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
    constexpr std::string_view kLetters = "ntr\\", kBytes = "\n\t\r\\";
    const std::size_t known = kLetters.find(text[i]);
    if (known == std::string_view::npos) return std::nullopt;
    bytes += kBytes[known];
  }
  return bytes;
}

}  // namespace moescope
