#include "widgets/panel/byte_text.h"

#include <algorithm>

namespace moescope {

namespace {

constexpr char16_t kOpenBox = 0x2423, kReturn = 0x21b5, kTab = 0x2192, kCarriage = 0x240d, kBullet = 0x25a1;
constexpr char16_t kLeftGuillemet = 0x2039, kRightGuillemet = 0x203a;

}  // namespace

QString byteGlyph(std::uint8_t byte) {
  switch (byte) {
    case ' ':
      return QChar(kOpenBox);
    case '\n':
      return QChar(kReturn);
    case '\t':
      return QChar(kTab);
    case '\r':
      return QChar(kCarriage);
    default:
      return byte > 0x20 && byte < 0x7f ? QString(QLatin1Char(static_cast<char>(byte))) : QString(QChar(kBullet));
  }
}

QString byteName(std::uint8_t byte) {
  switch (byte) {
    case ' ':
      return QStringLiteral("space");
    case '\n':
      return QStringLiteral("line feed");
    case '\t':
      return QStringLiteral("tab");
    case '\r':
      return QStringLiteral("carriage return");
    default:
      if (byte > 0x20 && byte < 0x7f) return QStringLiteral("'%1'").arg(QLatin1Char(static_cast<char>(byte)));
      return QStringLiteral("0x%1").arg(byte, 2, 16, QLatin1Char('0'));
  }
}

QString contextOf(const TokenFrame& text, std::size_t position, std::size_t reach) {
  const std::size_t first = position < reach ? 0 : position - reach;
  const std::size_t last = std::min(text.text.size(), position + reach + 1);
  QString context;
  for (std::size_t t = first; t < last; ++t) {
    const QString glyph = byteGlyph(static_cast<std::uint8_t>(text.text[t]));
    context += t == position ? QChar(kLeftGuillemet) + glyph + QChar(kRightGuillemet) : glyph;
  }
  return context;
}

}  // namespace moescope
