#include "core/files/text/base64.h"

#include <algorithm>

namespace moescope {
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
