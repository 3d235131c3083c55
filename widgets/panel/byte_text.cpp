#include "widgets/panel/byte_text.h"

#include "core/files/text/text_escape.h"

namespace moescope {

namespace {

constexpr struct {
  std::uint8_t byte;
  char16_t glyph;
  const char* name;
} kWhiteSpace[] = {
    {' ', 0x2423, "space"}, {'\n', 0x21b5, "line feed"}, {'\t', 0x2192, "tab"}, {'\r', 0x240d, "carriage return"}};
constexpr char16_t kUnprintable = 0x25a1;
constexpr char16_t kLeftGuillemet = 0x2039, kRightGuillemet = 0x203a;

QString glyphs(std::string_view bytes) {
  QString text;
  for (std::size_t at = 0; at < bytes.size();) {
    const QString character = longCharacter(bytes, at);
    text += character.isEmpty() ? byteGlyph(static_cast<std::uint8_t>(bytes[at])) : character;
    at += character.isEmpty() ? 1 : utf8_bytes(bytes, at);
  }
  return text;
}

}  // namespace

QString byteGlyph(std::uint8_t byte) {
  for (const auto& white_space : kWhiteSpace)
    if (white_space.byte == byte) return QChar(white_space.glyph);
  return byte > 0x20 && byte < 0x7f ? QChar(byte) : QChar(kUnprintable);
}

QString byteName(std::uint8_t byte) {
  for (const auto& white_space : kWhiteSpace)
    if (white_space.byte == byte) return QLatin1String(white_space.name);
  if (byte > 0x20 && byte < 0x7f) return QStringLiteral("'%1'").arg(QChar(byte));
  return QStringLiteral("0x%1").arg(byte, 2, 16, QLatin1Char('0'));
}

QString longCharacter(std::string_view bytes, std::size_t at) {
  const std::size_t length = utf8_bytes(bytes, at);
  if (length < 2) return {};
  const QString text = QString::fromUtf8(bytes.data() + at, length);
  const auto points = text.toUcs4();
  return points.size() == 1 && QChar::isPrint(points[0]) ? text : QString();
}

QString tokenName(std::string_view token) {
  return token.size() == 1 ? byteName(static_cast<std::uint8_t>(token[0])) : QStringLiteral("'%1'").arg(glyphs(token));
}

QString contextOf(const TokenFrame& text, TokenSpan token, std::size_t reach) {
  const std::size_t first = token.begin < reach ? 0 : token.begin - reach;
  const std::string_view bytes = text.text;
  return glyphs(bytes.substr(first, token.begin - first)) + QChar(kLeftGuillemet) +
         glyphs(bytes.substr(token.begin, token.size())) + QChar(kRightGuillemet) +
         glyphs(bytes.substr(token.end, reach));
}

}  // namespace moescope
