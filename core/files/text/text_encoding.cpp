#include "core/files/text/text_encoding.h"

#include <fmt/core.h>
#include <simdjson.h>
#include <unicode/utf.h>

#include <algorithm>
#include <array>

#include "core/files/text/text_escape.h"

namespace moescope {
namespace {

using namespace std::string_view_literals;

struct Beginning {
  std::string_view bytes;
  const char* what;
};

// Sources: RFC 1952, RFC 8878, the .xz and LZ4 frame formats, bzip2's and PKWARE's specifications; byte order marks:
// Unicode 23.8. UTF-32's little-endian mark begins with UTF-16's, so it comes first.
constexpr std::array<Beginning, 10> kBeginnings = {{
    {"\x1f\x8b"sv, "is gzip-compressed: gunzip it first"},
    {"\x28\xb5\x2f\xfd"sv, "is zstd-compressed: unzstd it first"},
    {"\xfd\x37\x7a\x58\x5a\x00"sv, "is xz-compressed: unxz it first"},
    {"BZh"sv, "is bzip2-compressed: bunzip2 it first"},
    {"\x04\x22\x4d\x18"sv, "is LZ4-compressed: unlz4 it first"},
    {"PK\x03\x04"sv, "is a zip archive: unzip it first"},
    {"\xff\xfe\x00\x00"sv, "is UTF-32 text: iconv -f UTF-32 -t UTF-8 makes it readable"},
    {"\x00\x00\xfe\xff"sv, "is UTF-32 text: iconv -f UTF-32 -t UTF-8 makes it readable"},
    {"\xff\xfe"sv, "is UTF-16 text: iconv -f UTF-16 -t UTF-8 makes it readable"},
    {"\xfe\xff"sv, "is UTF-16 text: iconv -f UTF-16 -t UTF-8 makes it readable"},
}};

}  // namespace

std::optional<bool> is_big_endian_utf16(std::string_view text) {
  const std::size_t looked_at = std::min<std::size_t>(text.size(), 256) / 2 * 2;
  std::array<std::size_t, 2> zeros{};
  for (std::size_t i = 0; i < looked_at; ++i) zeros[i % 2] += text[i] == 0;
  const std::size_t looked_at_pairs = looked_at / 2;
  if (looked_at_pairs < 2 || (zeros[0] > 0) == (zeros[1] > 0)) return std::nullopt;
  if (std::max(zeros[0], zeros[1]) * 4 < looked_at_pairs * 3) return std::nullopt;
  return zeros[0] > 0;
}

void take_utf16(std::string& bytes, bool is_big_endian, std::string& text) {
  std::u16string units;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2)
    units.push_back(static_cast<char16_t>(static_cast<unsigned char>(bytes[i + !is_big_endian]) << 8 |
                                          static_cast<unsigned char>(bytes[i + is_big_endian])));
  if (!units.empty() && U16_IS_LEAD(units.back())) units.pop_back();
  for (std::size_t at = 0; at < units.size();) {
    UChar32 character = 0;
    char utf8[U8_MAX_LENGTH];
    int size = 0;
    U16_NEXT_OR_FFFD(units, at, units.size(), character);
    U8_APPEND_UNSAFE(utf8, size, character);
    text.append(utf8, size);
  }
  bytes.erase(0, 2 * units.size());
}

std::string encoding_problem(std::string_view beginning) {
  for (const Beginning& beginning_row : kBeginnings)
    if (beginning.starts_with(beginning_row.bytes)) return beginning_row.what;
  if (const auto is_big_endian = is_big_endian_utf16(beginning))
    return fmt::format("is UTF-16 text: iconv -f UTF-16{} -t UTF-8 makes it readable", *is_big_endian ? "BE" : "LE");
  return {};
}

std::string text_problem(std::string_view text) {
  if (std::string problem = encoding_problem(text); !problem.empty()) return problem;
  const std::size_t at = not_utf8_at(text);
  if (at == std::string_view::npos) return {};
  const auto line = 1 + std::count(text.begin(), text.begin() + at, '\n');
  const auto byte = static_cast<unsigned char>(text[at]);
  return fmt::format("line {}: byte {:#04x} is not UTF-8 (Latin-1?): iconv -f ISO-8859-1 -t UTF-8 makes it readable",
                     line, byte);
}

std::size_t not_utf8_at(std::string_view text) {
  if (simdjson::validate_utf8(text)) return std::string_view::npos;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = utf8_bytes(text, i);
    if (bytes == 0) return i;
    i += bytes;
  }
  return std::string_view::npos;
}

std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  return text;
}

}  // namespace moescope
