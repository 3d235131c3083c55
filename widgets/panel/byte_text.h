// Bytes as text: one visible character each, and a name.
#pragma once

#include <QString>
#include <cstdint>
#include <string_view>

#include "core/frame/frame.h"

namespace moescope {

QString byteGlyph(std::uint8_t byte);  // one character; white space has its own signs, unprintable bytes a box
QString byteName(std::uint8_t byte);   // "'a'", "space", "line feed", "0xff"
// Returns the UTF-8 character of several bytes that begins at `at`; empty if none begins there or it is not printable.
QString longCharacter(std::string_view bytes, std::size_t at);
// Name of a token: "'the'" for several bytes, byteName() for one byte.
QString tokenName(std::string_view token);
// Returns the glyphs of the text around a token, `reach` bytes on both sides; the token itself is in guillemets.
QString contextOf(const TokenFrame& text, TokenSpan token, std::size_t reach);

}  // namespace moescope
