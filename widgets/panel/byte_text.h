// Bytes as text: one visible character each, and a name.
#pragma once

#include <QString>
#include <cstdint>
#include <string_view>

#include "core/frame/frame.h"
#include "core/frame/token_spans.h"

namespace moescope {

QString byteGlyph(std::uint8_t byte);  // one character; white space and control bytes have signs of their own
QString byteName(std::uint8_t byte);   // "'a'", "space", "line feed", "0xff"
// The character of several bytes (UTF-8) that begins at `at`; empty: none does, or it cannot be seen.
QString longCharacter(std::string_view bytes, std::size_t at);
// "'the'" of a token of several bytes, otherwise byteName().
QString tokenName(std::string_view token);
// Glyphs of the text around a token, `reach` bytes on both sides; the token itself in guillemets.
QString contextOf(const TokenFrame& text, TokenSpan token, std::size_t reach);

}  // namespace moescope
